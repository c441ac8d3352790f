// Bodies in three dimensions: MuJoCo's geoms drawn by three.js, on a floor of 1 m tiles; x forward, z up.

const COLOURS = { paper: 0xf4f2ec, tile: "#ebe8df", line: "#dcd8cc", body: 0xe0813a, rival: 0x4a86c5, goal: 0x1f8a5b, ink: 0x2c2a26 };
const CAPSULE = 3;
const TRAIL = 3000; // points
const PUSH = 250; // newtons for each metre that the mouse drags

function checker(THREE) {
  const canvas = Object.assign(document.createElement("canvas"), { width: 128, height: 128 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#f4f2ec";
  pen.fillRect(0, 0, 128, 128);
  pen.fillStyle = COLOURS.tile;
  pen.fillRect(0, 0, 64, 64);
  pen.fillRect(64, 64, 64, 64);
  const texture = new THREE.CanvasTexture(canvas);
  texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
  texture.colorSpace = THREE.SRGBColorSpace;
  texture.anisotropy = 8;
  return texture;
}

// An arrow on the ground from a place along a vector.
function arrow(THREE, colour, width, height) {
  const material = new THREE.MeshBasicMaterial({ color: colour, transparent: true, opacity: 0.9 });
  const shaft = new THREE.Mesh(new THREE.CylinderGeometry(width, width, 1, 12).rotateZ(-Math.PI / 2).translate(0.5, 0, 0), material);
  const head = new THREE.Mesh(new THREE.ConeGeometry(3 * width, 7 * width, 16).rotateZ(-Math.PI / 2), material);
  const group = new THREE.Group();
  group.add(shaft, head);
  return {
    group,
    show: ([x, y], [dx, dy]) => {
      const length = Math.hypot(dx, dy);
      group.visible = length > 0.03;
      group.position.set(x, y, height);
      group.rotation.z = Math.atan2(dy, dx);
      shaft.scale.x = length;
      head.position.x = length;
    },
  };
}

function bodyMeshes(THREE, shapes, colour, opacity) {
  const group = new THREE.Group();
  const meshes = shapes.map(({ geom, body, kind, size }) => {
    const [r, half] = size;
    const shape = kind === CAPSULE ? new THREE.CapsuleGeometry(r, 2 * half, 8, 20).rotateX(Math.PI / 2) : new THREE.SphereGeometry(r, 32, 20);
    const material = new THREE.MeshStandardMaterial({ color: colour, roughness: 0.55, metalness: 0.05, transparent: opacity < 1, opacity });
    if (kind !== CAPSULE) material.color.offsetHSL(0, 0, -0.03);
    const mesh = Object.assign(new THREE.Mesh(shape, material), { castShadow: opacity === 1, matrixAutoUpdate: false, userData: { geom, body } });
    group.add(mesh);
    return mesh;
  });
  return {
    group,
    meshes,
    follow: (sim) => meshes.forEach((mesh) => {
      const { position: p, matrix: m } = sim.pose(mesh.userData.geom);
      mesh.matrix.set(m[0], m[1], m[2], p[0], m[3], m[4], m[5], p[1], m[6], m[7], m[8], p[2], 0, 0, 0, 1);
    }),
  };
}

function trailLine(THREE, colour) {
  const points = new Float32Array(3 * TRAIL);
  const geometry = new THREE.BufferGeometry();
  geometry.setAttribute("position", new THREE.BufferAttribute(points, 3));
  const line = new THREE.Line(geometry, new THREE.LineBasicMaterial({ color: colour, transparent: true, opacity: 0.85 }));
  line.frustumCulled = false;
  return {
    line,
    draw: (trail) => {
      const shown = trail.slice(-TRAIL);
      shown.forEach(([x, y], i) => points.set([x, y, 0.012], 3 * i));
      geometry.setDrawRange(0, shown.length);
      geometry.attributes.position.needsUpdate = true;
    },
  };
}

export function stage(THREE, canvas, show) {
  const { run } = show;
  const planar = run.world.moves === 1;
  const renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
  renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
  renderer.shadowMap.enabled = true;
  renderer.shadowMap.type = THREE.PCFShadowMap;
  const scene = new THREE.Scene();
  scene.background = new THREE.Color(COLOURS.paper);
  scene.fog = new THREE.Fog(COLOURS.paper, 14, 42);
  const camera = new THREE.PerspectiveCamera(42, 1, 0.05, 120);
  camera.up.set(0, 0, 1);
  const controls = new THREE.OrbitControls(camera, canvas);
  Object.assign(controls, { enableDamping: true, dampingFactor: 0.12, minDistance: 1.2, maxDistance: 30, maxPolarAngle: 1.54, enablePan: true });

  const texture = checker(THREE);
  texture.repeat.set(40, 40);
  const floor = new THREE.Mesh(new THREE.PlaneGeometry(80, 80), new THREE.MeshStandardMaterial({ map: texture, roughness: 1 }));
  floor.receiveShadow = true;
  const sun = new THREE.DirectionalLight(0xffffff, 1.9);
  sun.castShadow = true;
  sun.shadow.mapSize.set(2048, 2048);
  Object.assign(sun.shadow.camera, { left: -4, right: 4, top: 4, bottom: -4, near: 1, far: 20 });
  sun.shadow.bias = -0.0005;
  scene.add(floor, sun, sun.target, new THREE.HemisphereLight(0xffffff, 0xe6e2d8, 1.75));

  const start = new THREE.Mesh(new THREE.PlaneGeometry(0.05, planar ? 4 : 1.2), new THREE.MeshBasicMaterial({ color: 0x9b968a }));
  start.position.z = 0.004;
  const flag = new THREE.Mesh(new THREE.RingGeometry(0.32, 0.42, 48), new THREE.MeshBasicMaterial({ color: COLOURS.goal, transparent: true, opacity: 0.9 }));
  flag.position.z = 0.01;
  const [asked, actual, force] = [arrow(THREE, COLOURS.goal, 0.03, 0.03), arrow(THREE, COLOURS.body, 0.018, 0.05), arrow(THREE, COLOURS.ink, 0.025, 0.6)];
  scene.add(start, flag, asked.group, actual.group, force.group);
  force.group.visible = false;

  const parts = new Map(); // of each body on the stage
  function dress(who, colour, opacity) {
    const body = bodyMeshes(THREE, who.sim.shapes, colour, opacity);
    const trail = trailLine(THREE, colour);
    scene.add(body.group, trail.line);
    parts.set(who, { body, trail });
  }
  function dressAll() {
    const present = show.both();
    [...parts.keys()].filter((who) => !present.includes(who)).forEach((who) => {
      const { body, trail } = parts.get(who);
      scene.remove(body.group, trail.line);
      parts.delete(who);
    });
    present.filter((who) => !parts.has(who)).forEach((who) => (who === show.main ? dress(who, COLOURS.body, 1) : dress(who, COLOURS.rival, 0.6)));
  }

  let [following, last] = [true, null];
  function home() {
    const [x, y] = show.main.sim.place();
    const far = run.env === "Humanoid" ? 1.25 : 1;
    controls.target.set(x, y, run.env === "Humanoid" ? 0.9 : 0.45);
    camera.position.set(x + (planar ? 0.6 : -2.6) * far, y - (planar ? 4.2 : 3.6) * far, (planar ? 1.5 : 2.3) * far);
    last = [x, y];
    controls.update();
  }
  function follow() {
    const [x, y] = show.main.sim.place();
    if (following && last) {
      const [dx, dy] = [x - last[0], y - last[1]];
      controls.target.x += dx; controls.target.y += dy;
      camera.position.x += dx; camera.position.y += dy;
    }
    last = [x, y];
    sun.target.position.set(x, y, 0);
    sun.position.set(x - 3, y - 4, 9);
    floor.position.set(2 * Math.round(x / 2), 2 * Math.round(y / 2), 0);
  }

  function markGoal() {
    const { main, intent } = show;
    const isPlace = run.meaning === "place" && intent.kind === "goal";
    const spot = intent.kind === "steer" ? intent.place : isPlace ? main.z : intent.place;
    flag.visible = Boolean(spot);
    if (spot) flag.position.set(spot[0], spot[1] ?? 0, 0.01);
    const here = main.sim.place();
    const isVelocity = run.meaning === "velocity" && main.z;
    asked.show(here, isVelocity ? [main.z[0], main.z[1] ?? 0] : [0, 0]);
    actual.show(here, main.sim.velocity());
  }

  // The mouse: a click on the ground is a goal, a drag that begins on the body pushes it, another turns the camera.
  const ray = new THREE.Raycaster();
  const mouse = (event) => {
    const box = canvas.getBoundingClientRect();
    ray.setFromCamera(new THREE.Vector2(((event.clientX - box.left) / box.width) * 2 - 1, 1 - ((event.clientY - box.top) / box.height) * 2), camera);
  };
  const ground = new THREE.Plane(new THREE.Vector3(0, 0, 1), 0);
  let [down, held] = [null, null];
  canvas.addEventListener("pointerdown", (event) => {
    down = [event.clientX, event.clientY];
    mouse(event);
    const { body } = parts.get(show.main);
    const hit = ray.intersectObjects(body.meshes, false)[0];
    if (!hit || event.button !== 0) return;
    const facing = camera.getWorldDirection(new THREE.Vector3()).negate();
    held = { body: hit.object.userData.body, from: hit.point.clone(), plane: new THREE.Plane().setFromNormalAndCoplanarPoint(facing, hit.point) };
    controls.enabled = false;
  }, true);
  const drag = (event) => {
    if (!held) return;
    mouse(event);
    const to = ray.ray.intersectPlane(held.plane, new THREE.Vector3());
    if (!to) return;
    const pull = to.sub(held.from);
    if (planar) pull.y = 0;
    show.main.sim.push(held.body, pull.toArray().map((v) => PUSH * v));
    force.show([held.from.x, held.from.y], [pull.x, pull.y]);
  };
  const release = (event) => {
    if (held) show.main.sim.push(held.body, [0, 0, 0]);
    const moved = down ? Math.hypot(event.clientX - down[0], event.clientY - down[1]) : Infinity;
    if (!held && moved < 5 && event.target === canvas && event.button === 0) {
      mouse(event);
      const at = ray.ray.intersectPlane(ground, new THREE.Vector3());
      if (at) self.onGround([at.x, at.y]);
    }
    [down, held] = [null, null];
    controls.enabled = true;
    force.group.visible = false;
  };
  addEventListener("pointermove", drag);
  addEventListener("pointerup", release);

  const self = {
    onGround: () => {},
    home,
    get following() { return following; },
    follow: (on) => { following = on; if (on) home(); },
    change: dressAll,
    // Where a place on the ground is on the canvas, in CSS pixels: for scripts.
    project: ([x, y]) => {
      const p = new THREE.Vector3(x, y, 0).project(camera);
      const box = canvas.getBoundingClientRect();
      return [box.left + ((p.x + 1) / 2) * box.width, box.top + ((1 - p.y) / 2) * box.height];
    },
    draw: () => {
      const { clientWidth: w, clientHeight: h } = canvas;
      const size = renderer.getSize(new THREE.Vector2());
      if (size.x !== w || size.y !== h) {
        renderer.setSize(w, h, false);
        camera.aspect = w / h;
        camera.updateProjectionMatrix();
      }
      follow();
      parts.forEach(({ body, trail }, who) => { body.follow(who.sim); trail.draw(who.trail); });
      markGoal();
      controls.update();
      renderer.render(scene, camera);
    },
  };
  dressAll();
  home();
  return self;
}
