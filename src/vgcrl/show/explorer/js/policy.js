// One seed of a run: acts for a goal, finds the goal that stands for a state, and says what q thinks of a step.
import { goalSpace } from "vgcrl/goals.js";
import { INPUTS, mlp } from "vgcrl/networks.js";
import { posterior } from "vgcrl/posteriors.js";

const VIEWS = {
  state: (see) => (s, action, after) => see(after),
  action: (see) => (s, action) => Float32Array.from([...see(s), ...action]),
  transition: (see) => (s, action, after) => Float32Array.from([...see(s), ...see(after)]),
};

export function policy(run, data) {
  const [goals, q, actor] = [goalSpace(data.goals), posterior(data.posterior), mlp(data.actor)];
  const scale = INPUTS[run.inputs];
  const width = run.spec.action_dim;
  const see = (s) => Float32Array.from(run.features, (i) => s[i]);
  const view = VIEWS[run.sees](see);
  const still = new Float32Array(width);

  // q of a step (s, a, s'); of a state alone it is at rest there.
  const during = (s, action, after) => q && q.of(view(s, action, after));
  const at = (s) => during(s, still, s);

  return {
    label: data.label,
    goals,
    hasPosterior: q !== null,
    during,
    at,
    // The action in [−1, 1], without noise.
    act: (obs, z) => actor(scale(Float32Array.from([...obs, ...goals.embed(z)]))).subarray(0, width).map(Math.tanh),
    // The goal that stands for a target state, seen from obs.
    aim: (obs, target) => {
      if (!q) throw new Error("this page does not know the posterior of this method, so a state cannot be a goal");
      return q.aim ? q.aim(see(obs), see(target)) : goals.point(at(target));
    },
    // Whether the goal of a target changes on the way.
    aimsAnew: Boolean(q && q.aim),
    // log q(z|·) − log p(z), and the likeliest goal.
    opinion: (s, action, after, z) => {
      if (!q) return null;
      const d = during(s, action, after);
      return { value: d.logProb(z) - goals.logProb(z), mode: d.mode(), distribution: d };
    },
  };
}
