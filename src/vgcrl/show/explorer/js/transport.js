// Time: play, pause, one step, slower and faster, from the beginning; by buttons and by keys.
import { byId } from "vgcrl/dom.js";
import { generator } from "vgcrl/random.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
const random = generator(Math.random() * 2 ** 32);

export function transport(show, view, say) {
  const state = { playing: true, speed: 1 };
  const label = () => {
    byId("play").textContent = state.playing ? "Pause" : "Play";
    byId("play").setAttribute("aria-pressed", String(state.playing));
    byId("speed").value = String(state.speed);
    byId("follow").setAttribute("aria-pressed", String(view.following));
    byId("noise").setAttribute("aria-pressed", String(show.noise));
  };
  const act = {
    play: (on = !state.playing) => { state.playing = on; label(); },
    step: () => { act.play(false); show.step(1); },
    reset: () => { show.reset(show.seed + 1); say("A fresh start."); },
    follow: () => { view.follow(!view.following); label(); },
    noise: () => {
      show.setNoise(!show.noise);
      say(show.noise ? "It acts with the noise of its training." : "It acts without noise.");
      label();
    },
    faster: (by) => {
      const at = SPEEDS.indexOf(state.speed) + by;
      state.speed = SPEEDS[Math.min(Math.max(at, 0), SPEEDS.length - 1)];
      label();
    },
    another: (by) => {
      const { goals, main } = show;
      if (goals.kind === "discrete") show.setGoal((main.z + by + goals.size) % goals.size);
      else show.setGoal(goals.show(goals.sample(random)));
    },
  };
  const keys = {
    " ": () => act.play(), ".": act.step, ArrowRight: act.step, r: act.reset, f: act.follow, e: act.noise, "+": () => act.faster(1),
    "=": () => act.faster(1), "-": () => act.faster(-1), n: () => act.another(1), p: () => act.another(-1),
  };
  SPEEDS.forEach((v) => byId("speed").append(new Option(`${v}×`, String(v))));
  byId("play").onclick = () => act.play();
  byId("step").onclick = act.step;
  byId("reset").onclick = act.reset;
  byId("follow").onclick = act.follow;
  byId("noise").onclick = act.noise;
  byId("follow").hidden = show.run.world.kind !== "body";
  byId("speed").onchange = (event) => { state.speed = Number(event.target.value); };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const skill = show.goals.kind === "discrete" && /^\d$/.test(event.key) ? Number(event.key) : null;
    if (skill !== null && skill < show.goals.size) show.setGoal(skill);
    else if (event.key === " " && event.target.closest("button")) return; // presses that button
    else if (keys[key]) { keys[key](); event.preventDefault(); }
  });
  label();
  return { state, label, ...act };
}
