// The point mass of envs/pointmass.py, step for step, in as many dimensions as it has.
import { tensor } from "vgcrl/networks.js";
import { generator } from "vgcrl/random.js";

function impedance(depth, [d0, d1, width]) {
  const x = Math.min(Math.max(depth / width, 0), 1);
  return d0 + (x <= 0.5 ? 2 * x * x : 1 - 2 * (1 - x) ** 2) * (d1 - d0);
}

// Force of a joint limit, given the acceleration without it.
function limitForce(x, v, free, world) {
  const { arena, mass, solref, solimp, timestep } = world;
  const gap = arena - Math.abs(x);
  if (gap >= 0) return 0;
  const constant = Math.max(solref[0], 2 * timestep);
  const damping = 2 / (solimp[1] * constant);
  const stiffness = 1 / (solimp[1] * constant * solref[1]) ** 2;
  const side = -Math.sign(x);
  const d = impedance(-gap, solimp);
  const reference = -damping * side * v - stiffness * d * gap;
  return (side * Math.max(0, reference - side * free)) / (1 / mass + (1 - d) / d / mass);
}

export function loadPointMass(run, projection) {
  const { world } = run;
  const { dims, mass, damping, timestep, gear, arena } = world;
  const matrix = projection && tensor(projection);
  const seen = (x) => {
    if (!matrix) return x;
    const [height, width] = matrix.shape;
    return Array.from({ length: height }, (_, i) => x.reduce((sum, v, j) => sum + matrix.data[i * width + j] * v, 0));
  };

  function simulation() {
    let [x, v, before, random, time] = [Array(dims).fill(0), Array(dims).fill(0), [], generator(0), 0];
    let [action, pushed, gust] = [Array(dims).fill(0), Array(dims).fill(0), Array(dims).fill(0)];
    const self = {
      observation: () => Float32Array.from([...seen(x), ...seen(v)]),
      set: ({ qpos, qvel }) => { [x, v, before] = [[...qpos], [...qvel], [...qpos]]; },
      get: () => ({ qpos: [...x], qvel: [...v] }),
      reset: (seed) => {
        random = generator(seed);
        time = 0;
        self.set({ qpos: x.map(() => arena * random.signed()), qvel: v.map(() => 0) });
      },
      begin: (chosen) => { action = chosen; },
      substep: () => {
        before = x;
        gust = world.wind.map((r) => r * random.signed());
        const force = gust.map((w, i) => gear * Math.min(Math.max(action[i], -1), 1) + w + pushed[i]);
        const total = force.map((f, i) => {
          const passive = f - damping * v[i];
          return passive + limitForce(x[i], v[i], passive / mass, world);
        });
        v = v.map((u, i) => u + (timestep * total[i]) / (mass + timestep * damping));
        x = x.map((p, i) => p + timestep * v[i]);
        time += timestep;
        return true;
      },
      substeps: 1,
      // Between the last step and this one, for smooth drawing.
      between: (share) => x.map((p, i) => before[i] + share * (p - before[i])),
      push: (force) => { pushed = pushed.map((_, i) => force[i] ?? 0); },
      gust: () => gust,
      place: () => [x[0], x[1] ?? 0],
      velocity: () => [v[0], v[1] ?? 0],
      fallen: () => false,
      time: () => time,
    };
    self.reset(0);
    return self;
  }
  return { simulation };
}
