// What stands on the stage, as three.js has it: the floor, arrows, bodies and their trails.

export const COLOURS = { paper: 0xf4f2ec, tile: "#ebe8df", body: 0xe0813a, rival: 0x4a86c5, goal: 0x1f8a5b, ink: 0x2c2a26, start: 0x9b968a };
const CAPSULE = 3; // of MuJoCo's kinds of geoms; the other is a sphere
const TRAIL = 3000; // points

export function checker(THREE) {
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
export function arrow(THREE, colour, width, height) {
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

// Capsules and spheres of a body, which follow its simulation.
export function bodyMeshes(THREE, shapes, colour, opacity) {
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

// Where a body has been, as a line on the ground.
export function trailLine(THREE, colour) {
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

// The ground, with light and the line at which episodes begin.
export function ground(THREE, planar) {
  const texture = checker(THREE);
  texture.repeat.set(40, 40);
  const floor = new THREE.Mesh(new THREE.PlaneGeometry(80, 80), new THREE.MeshStandardMaterial({ map: texture, roughness: 1 }));
  floor.receiveShadow = true;
  const sun = new THREE.DirectionalLight(0xffffff, 1.9);
  sun.castShadow = true;
  sun.shadow.mapSize.set(2048, 2048);
  Object.assign(sun.shadow.camera, { left: -4, right: 4, top: 4, bottom: -4, near: 1, far: 20 });
  sun.shadow.bias = -0.0005;
  const start = new THREE.Mesh(new THREE.PlaneGeometry(0.05, planar ? 4 : 1.2), new THREE.MeshBasicMaterial({ color: COLOURS.start }));
  start.position.z = 0.004;
  return {
    parts: [floor, sun, sun.target, start, new THREE.HemisphereLight(0xffffff, 0xe6e2d8, 1.75)],
    follow: ([x, y]) => {
      sun.target.position.set(x, y, 0);
      sun.position.set(x - 3, y - 4, 9);
      floor.position.set(2 * Math.round(x / 2), 2 * Math.round(y / 2), 0);
    },
  };
}

// The goal pursued: a ring at a place, an arrow for a velocity; and the velocity as it is.
export function goalMarks(THREE) {
  const flag = new THREE.Mesh(new THREE.RingGeometry(0.32, 0.42, 48), new THREE.MeshBasicMaterial({ color: COLOURS.goal, transparent: true, opacity: 0.9 }));
  const [asked, actual] = [arrow(THREE, COLOURS.goal, 0.03, 0.03), arrow(THREE, COLOURS.body, 0.018, 0.05)];
  return {
    parts: [flag, asked.group, actual.group],
    show: ({ run, main, intent }) => {
      const spot = run.meaning === "place" && intent.kind === "goal" ? main.z : intent.place;
      flag.visible = Boolean(spot);
      if (spot) flag.position.set(spot[0], spot[1] ?? 0, 0.01);
      const here = main.sim.place();
      asked.show(here, run.meaning === "velocity" ? [main.z[0], main.z[1] ?? 0] : [0, 0]);
      actual.show(here, main.sim.velocity());
    },
  };
}
