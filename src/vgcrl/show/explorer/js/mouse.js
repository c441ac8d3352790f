// The mouse on the stage: a click on the ground is a goal, a drag that begins on the body pushes it, another turns the
// camera.

const PUSH = 250; // newtons for each metre that the mouse drags
const STILL = 5; // pixels that a click may move

// `meshes()` are those of the body that can be pushed; `onGround([x, y])` is told of clicks, `onPush(from, pull)` of pushes.
export function mouse(THREE, { canvas, camera, controls, planar, meshes, push, onGround, onPush }) {
  const ray = new THREE.Raycaster();
  const floor = new THREE.Plane(new THREE.Vector3(0, 0, 1), 0);
  let [down, held] = [null, null];
  const aim = (event) => {
    const box = canvas.getBoundingClientRect();
    ray.setFromCamera(new THREE.Vector2(((event.clientX - box.left) / box.width) * 2 - 1, 1 - ((event.clientY - box.top) / box.height) * 2), camera);
  };
  const grab = (event) => {
    down = [event.clientX, event.clientY];
    aim(event);
    const hit = ray.intersectObjects(meshes(), false)[0];
    if (!hit || event.button !== 0) return;
    const facing = camera.getWorldDirection(new THREE.Vector3()).negate();
    held = { body: hit.object.userData.body, from: hit.point.clone(), plane: new THREE.Plane().setFromNormalAndCoplanarPoint(facing, hit.point) };
    controls.enabled = false;
  };
  const drag = (event) => {
    if (!held) return;
    aim(event);
    const to = ray.ray.intersectPlane(held.plane, new THREE.Vector3());
    if (!to) return;
    const pull = to.sub(held.from);
    if (planar) pull.y = 0;
    push(held.body, pull.toArray().map((v) => PUSH * v));
    onPush(held.from, pull);
  };
  const release = (event) => {
    const moved = down ? Math.hypot(event.clientX - down[0], event.clientY - down[1]) : Infinity;
    if (held) {
      push(held.body, [0, 0, 0]);
      onPush(held.from, null);
    } else if (moved < STILL && event.target === canvas && event.button === 0) {
      aim(event);
      const at = ray.ray.intersectPlane(floor, new THREE.Vector3());
      if (at) onGround([at.x, at.y]);
    }
    [down, held] = [null, null];
    controls.enabled = true;
  };
  canvas.addEventListener("pointerdown", grab, true);
  addEventListener("pointermove", drag);
  addEventListener("pointerup", release);
}
