// What goes on, without any drawing: simulations, the goal pursued, the policy that acts, and what q says of it.
import { policy } from "vgcrl/policy.js";
import { generator } from "vgcrl/random.js";

const HISTORY = 240; // opinions kept
const TRAIL = 4000; // places kept
const APART = 0x5bd1e995; // between the seed of a start and that of the noise
const EASE = 0.8; // seconds: a place nearer than its speed times this is approached more slowly

// One body with the policy that moves it.
function player(run, index, simulation, resolve, noisy) {
  const mind = policy(run, run.policies[index]);
  const self = { index, mind, sim: simulation, z: null, opinion: null, history: [], trail: [] };
  let [obs, action, random] = [null, null, null];
  const draw = () => (noisy() ? Float32Array.from({ length: run.spec.action_dim }, random.normal) : undefined);

  function conclude() {
    self.opinion = mind.opinion(obs, action, simulation.observation(), self.z);
    if (self.opinion) self.history = [...self.history, self.opinion.value].slice(-HISTORY);
    self.trail = [...self.trail, simulation.place()].slice(-TRAIL);
    action = null;
  }
  self.substep = () => {
    if (!action) {
      obs = simulation.observation();
      self.z = resolve(self, obs);
      action = mind.act(obs, self.z, draw());
      simulation.begin(action);
    }
    const done = simulation.substep();
    if (done) conclude();
    return done;
  };
  self.reset = (seed) => {
    simulation.reset(seed);
    random = generator(seed + APART);
    Object.assign(self, { opinion: null, history: [], trail: [] });
    action = null;
    self.z = resolve(self, simulation.observation());
  };
  self.interrupt = () => { action = null; };
  return self;
}

export function session(run, simulate, onChange) {
  const { world, meaning, features } = run;
  const limit = meaning === "velocity" ? Math.max(...run.policies[0].goals.high) : 0;
  let intent = { kind: "goal", z: null };
  let [main, rival, seed, noise] = [null, null, 0, run.noise];

  // The goal of a player now: chosen, or that of a target state, or a velocity towards a place.
  function resolve(who, obs) {
    const { goals } = who.mind;
    if (intent.kind === "goal") return intent.z;
    if (intent.kind === "target") {
      if (who.aimed !== intent || who.mind.aimsAnew) [who.aimed, who.goal] = [intent, who.mind.aim(obs, intent.state)];
      return who.goal;
    }
    const here = who.sim.place();
    const away = intent.place.map((p, i) => p - here[i]).slice(0, goals.dim);
    const distance = Math.hypot(...away) + 1e-9;
    const speed = Math.min(limit, distance / EASE);
    const { low, high } = run.policies[who.index].goals; // it was trained for no others
    return away.map((a, i) => Math.min(Math.max((a / distance) * speed, low[i]), high[i]));
  }

  const both = () => [main, rival].filter(Boolean);
  function pursue(next) {
    intent = next;
    both().forEach((who) => { who.z = resolve(who, who.sim.observation()); who.interrupt(); });
    onChange();
  }

  function enter(index) {
    const who = player(run, index, simulate(index), resolve, () => noise);
    intent.z ??= firstGoal(run, who.mind.goals);
    who.reset(seed);
    return who;
  }

  const self = {
    run,
    labels: run.policies.map((p) => p.label),
    get main() { return main; },
    get rival() { return rival; },
    get intent() { return intent; },
    get goals() { return main.mind.goals; },
    both,
    choose: (index) => { main = enter(index); if (rival) rival.reset(seed); onChange(); },
    compare: (index) => { rival = index === null ? null : enter(index); if (rival) self.reset(seed); onChange(); },
    setGoal: (z) => pursue({ kind: "goal", z: main.mind.goals.read(z) }),
    // `place` is where the state is, for drawing.
    setTarget: (state, place = null) => {
      const width = run.spec.obs_dim;
      const sound = Array.isArray(state) && state.length === width && state.every(Number.isFinite);
      if (!sound) throw new Error(`a target state here is ${width} finite numbers`);
      main.mind.aim(main.sim.observation(), state); // where it cannot be a goal, this says why
      pursue({ kind: "target", state, place });
    },
    // A place in the world as a goal; false where this policy knows no places.
    goTo: (place) => {
      if (meaning === "velocity") return pursue({ kind: "steer", place }), true;
      if (!world.place.length) return false;
      if (meaning !== "latent" && world.place.every((i) => features.includes(i))) {
        const z = [...main.mind.goals.show(main.z)];
        world.place.forEach((i, k) => { z[features.indexOf(i)] = place[k]; });
        return self.setGoal(z), true;
      }
      const state = world.kind === "body" ? [...main.sim.observation()] : Array(run.spec.obs_dim).fill(0);
      world.place.forEach((i, k) => { state[i] = place[k]; });
      return self.setTarget(state, place), true;
    },
    reset: (next = seed) => { seed = next; both().forEach((who) => who.reset(seed)); onChange(); },
    get seed() { return seed; },
    // Whether it acts with the noise of its training.
    get noise() { return noise; },
    setNoise: (on) => {
      if (typeof on !== "boolean") throw new Error(`noise is true or false, not ${JSON.stringify(on)}`);
      noise = on;
      both().forEach((who) => who.interrupt());
      onChange();
    },
    substep: () => both().forEach((who) => who.substep()),
    // Whole steps of the environment.
    step: (count = 1) => {
      for (let i = 0; i < count; i++) both().forEach((who) => { while (!who.substep()); });
      onChange();
    },
  };
  self.choose(0);
  return self;
}

// What is pursued when the page opens: for velocities straight ahead, else something off the middle.
function firstGoal({ meaning, goals }, space) {
  if (space.kind === "discrete") return 0;
  if (space.kind === "visited") return space.sample({ uniform: () => 0.5 });
  const middle = space.low.map((a, i) => (a + space.high[i]) / 2);
  const share = meaning === "velocity" ? 0.5 : 0.6;
  return space.read(middle.map((m, i) => (i === 0 ? m + share * (space.high[0] - m) : m)));
}
