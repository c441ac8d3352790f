// One seed of a run: acts for a goal, finds the goal that stands for a state, and says what q thinks of a step.
import { goalSpace } from "vgcrl/goals.js";
import { INPUTS, mlp, tensor } from "vgcrl/networks.js";
import { posterior } from "vgcrl/posteriors.js";

const VIEWS = {
  state: (see) => (s, action, after) => see(after),
  action: (see) => (s, action) => Float32Array.from([...see(s), ...action]),
  transition: (see) => (s, action, after) => Float32Array.from([...see(s), ...see(after)]),
};

export function policy(run, data) {
  const [goals, actor] = [goalSpace(data.goals), mlp(data.actor)];
  const q = posterior(data.posterior, goals);
  const scale = INPUTS[run.inputs];
  const width = run.spec.action_dim;
  const [least, most] = run.log_std_range;
  const units = data.standard && data.standard.map((x) => tensor(x).data); // mean and spread of the features
  const see = (s) => Float32Array.from(run.features, (i, k) => (units ? (s[i] - units[0][k]) / units[1][k] : s[i]));
  const view = VIEWS[run.sees](see);
  const still = new Float32Array(width);
  // What the actor is given: the state, maybe without where it is; the goal, or how far that is from the state.
  const seenState = (obs) => obs.map((v, i) => (run.unseen.includes(i) ? 0 : v));
  const seenGoal = (obs, z) => goals.embed(z).map((v, k) => (run.relative.length ? v - obs[run.relative[k]] : v));
  const given = (obs, z) => scale(Float32Array.from([...seenState(obs), ...seenGoal(obs, z)]));

  // q of a step (s, a, s'); of a state alone it is at rest there.
  const during = (s, action, after) => q && q.of(view(s, action, after));
  const at = (s) => during(s, still, s);

  return {
    label: data.label,
    goals,
    hasPosterior: q !== null,
    during,
    at,
    // The action in [−1, 1]: the mode of the policy, or a sample of it from standard normal noise.
    act: (obs, z, noise = still) => {
      const out = actor(given(obs, z));
      const std = out.subarray(width).map((v) => Math.exp(Math.min(Math.max(v, least), most)));
      return out.subarray(0, width).map((mean, i) => Math.tanh(mean + std[i] * noise[i]));
    },
    // The goal that stands for a target state, seen from obs.
    aim: (obs, target) => {
      if (!q) throw new Error("this page does not know the posterior of this method, so a state cannot be a goal");
      return goals.point(run.sees === "action" ? at(target) : during(obs, still, target));
    },
    // The goal that stands for a state alone; where q sees transitions there is none.
    embed: (state) => {
      if (run.sees === "transition") throw new Error("q sees transitions here, so no one goal stands for a state; valid: vgcrl.setTarget(state)");
      return goals.point(at(state));
    },
    // Whether the goal of a target changes on the way: where q sees transitions.
    aimsAnew: run.sees === "transition",
    // Where log q − log p has an upper end.
    best: q && !q.unbounded && goals.kind === "discrete" ? Math.log(goals.size) : undefined,
    unbounded: Boolean(q && q.unbounded),
    // log q(z|·) − log p(z), and the likeliest goal.
    opinion: (s, action, after, z) => {
      if (!q) return null;
      const d = during(s, action, after);
      return { value: d.logProb(z) - goals.logProb(z), mode: d.mode(), distribution: d };
    },
  };
}
