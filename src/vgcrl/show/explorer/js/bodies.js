// HalfCheetah, Ant and Humanoid on MuJoCo itself, in WebAssembly: envs/bodies.py for one simulation.
import { generator } from "vgcrl/random.js";

export function loadBody(mujoco, run) {
  const { world, spec } = run;
  const model = mujoco.MjModel.from_xml_string(world.xml);
  const geoms = [...model.geom_bodyid.keys()].filter((g) => model.geom_bodyid[g] > 0);
  const shapes = geoms.map((g) => ({
    geom: g, body: model.geom_bodyid[g], kind: model.geom_type[g], size: [...model.geom_size.subarray(3 * g, 3 * g + 3)],
  }));

  function simulation() {
    const data = new mujoco.MjData(model);
    let [done, random] = [world.frames, generator(0)];

    const observation = () => {
      const parts = [data.qpos.subarray(world.hidden), data.qvel];
      if (world.rich) parts.push(data.cinert.subarray(10), data.cvel.subarray(6), data.qfrc_actuator.subarray(6));
      return Float32Array.from(parts.flatMap((part) => [...part]));
    };
    const set = ({ qpos, qvel }) => {
      mujoco.mj_resetData(model, data);
      data.qpos.set(qpos);
      data.qvel.set(qvel);
      mujoco.mj_forward(model, data);
      done = world.frames;
    };
    const self = {
      shapes,
      observation,
      set,
      get: () => ({ qpos: [...data.qpos], qvel: [...data.qvel] }),
      reset: (seed) => {
        random = generator(seed);
        const velocity = world.normal ? random.normal : random.signed;
        const qpos = Array.from(model.qpos0, (x) => x + world.noise * random.signed());
        set({ qpos, qvel: Array.from(data.qvel, () => world.noise * velocity()) });
      },
      // Actions are in [−1, 1]; each is held for some steps of the simulation.
      begin: (action) => {
        const { action_low: low, action_high: high } = spec;
        data.ctrl.set(Float64Array.from(action, (a, i) => (low[i] + high[i]) / 2 + ((high[i] - low[i]) / 2) * a));
        done = 0;
      },
      // One step of the simulation; true at the last of an action.
      substep: () => {
        mujoco.mj_step(model, data);
        return ++done >= world.frames;
      },
      substeps: world.frames,
      pose: (g) => ({ position: data.geom_xpos.subarray(3 * g, 3 * g + 3), matrix: data.geom_xmat.subarray(9 * g, 9 * g + 9) }),
      // A force in newtons on a body, until told otherwise.
      push: (body, force) => data.xfrc_applied.set([...force, 0, 0, 0], 6 * body),
      place: () => [data.qpos[0], world.moves > 1 ? data.qpos[1] : 0],
      velocity: () => [data.qvel[0], world.moves > 1 ? data.qvel[1] : 0],
      height: () => data.qpos[2],
      fallen: () => {
        const [low, high] = spec.height;
        return low !== null && (data.qpos[2] < low || data.qpos[2] > high);
      },
      time: () => data.time,
    };
    self.reset(0);
    return self;
  }
  return { simulation, shapes };
}
