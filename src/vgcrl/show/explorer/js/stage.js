// Bodies in three dimensions: MuJoCo's geoms drawn by three.js, on a floor of 1 m tiles; x forward, z up.
import { mouse } from "vgcrl/mouse.js";
import { COLOURS, arrow, bodyMeshes, goalMarks, ground, trailLine } from "vgcrl/props.js";

function paperRenderer(THREE, canvas) {
  if (!document.createElement("canvas").getContext("webgl2")) throw new Error("This browser cannot draw in three dimensions: WebGL is missing or switched off. Please open the page in a current Firefox, Chrome, Edge or Safari.");
  const renderer = new THREE.WebGLRenderer({ canvas, antialias: true });
  renderer.setPixelRatio(Math.min(devicePixelRatio, 2));
  renderer.shadowMap.enabled = true;
  renderer.shadowMap.type = THREE.PCFShadowMap;
  return renderer;
}

// A camera that a person turns, and that goes along with a place.
function followingCamera(THREE, canvas, { env, world }) {
  const camera = new THREE.PerspectiveCamera(42, 1, 0.05, 120);
  camera.up.set(0, 0, 1);
  const controls = new THREE.OrbitControls(camera, canvas);
  Object.assign(controls, { enableDamping: true, dampingFactor: 0.12, minDistance: 1.2, maxDistance: 30, maxPolarAngle: 1.54 });
  const [planar, tall] = [world.moves === 1, env === "Humanoid"];
  const away = (planar ? [0.6, -4.2, 1.5] : [-2.6, -3.6, 2.3]).map((v) => v * (tall ? 1.25 : 1));
  let last = null;
  return {
    camera,
    controls,
    home: ([x, y]) => {
      controls.target.set(x, y, tall ? 0.9 : 0.45);
      camera.position.set(x + away[0], y + away[1], away[2]);
      controls.update();
      last = [x, y];
    },
    follow: ([x, y], on) => {
      const [dx, dy] = on && last ? [x - last[0], y - last[1]] : [0, 0];
      controls.target.x += dx; controls.target.y += dy;
      camera.position.x += dx; camera.position.y += dy;
      last = [x, y];
    },
  };
}

// Bodies and trails of those who are on the stage now.
function cast(THREE, scene, show) {
  const parts = new Map();
  const enter = (who, colour, opacity) => {
    const [body, trail] = [bodyMeshes(THREE, who.sim.shapes, colour, opacity), trailLine(THREE, colour)];
    scene.add(body.group, trail.line);
    parts.set(who, { body, trail });
  };
  return {
    change: () => {
      const present = show.both();
      [...parts.keys()].filter((who) => !present.includes(who)).forEach((who) => {
        scene.remove(parts.get(who).body.group, parts.get(who).trail.line);
        parts.delete(who);
      });
      present.filter((who) => !parts.has(who)).forEach((who) => (who === show.main ? enter(who, COLOURS.body, 1) : enter(who, COLOURS.rival, 0.6)));
    },
    draw: () => parts.forEach(({ body, trail }, who) => { body.follow(who.sim); trail.draw(who.trail); }),
    meshes: () => parts.get(show.main).body.meshes,
  };
}

export function stage(THREE, canvas, show) {
  const { run } = show;
  const planar = run.world.moves === 1;
  const [renderer, scene] = [paperRenderer(THREE, canvas), new THREE.Scene()];
  scene.background = new THREE.Color(COLOURS.paper);
  scene.fog = new THREE.Fog(COLOURS.paper, 14, 42);
  const { camera, controls, home, follow } = followingCamera(THREE, canvas, run);
  const [land, marks, players] = [ground(THREE, planar), goalMarks(THREE), cast(THREE, scene, show)];
  const force = arrow(THREE, COLOURS.ink, 0.025, 0.6);
  scene.add(...land.parts, ...marks.parts, force.group);
  force.group.visible = false;
  let following = true;

  const self = {
    onGround: () => {},
    get following() { return following; },
    follow: (on) => { following = on; if (on) home(show.main.sim.place()); },
    change: players.change,
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
      follow(show.main.sim.place(), following);
      land.follow(show.main.sim.place());
      players.draw();
      marks.show(show);
      controls.update();
      renderer.render(scene, camera);
    },
  };
  mouse(THREE, {
    canvas, camera, controls, planar,
    meshes: players.meshes,
    push: (body, newtons) => show.main.sim.push(body, newtons),
    onGround: (place) => self.onGround(place),
    onPush: (from, pull) => { if (pull) force.show([from.x, from.y], [pull.x, pull.y]); else force.group.visible = false; },
  });
  players.change();
  home(show.main.sim.place());
  return self;
}
