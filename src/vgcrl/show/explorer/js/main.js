// The page: unpacks what it carries, builds world, stage and panel, and lets time pass. window.vgcrl is for scripts.
import { arenaView } from "vgcrl/arena.js";
import { unpackAsset, unpackJson } from "vgcrl/assets.js";
import { loadBody } from "vgcrl/bodies.js";
import { byId } from "vgcrl/dom.js";
import { panel } from "vgcrl/panel.js";
import { loadPointMass } from "vgcrl/pointmass.js";
import { recorded } from "vgcrl/recorded.js";
import { session } from "vgcrl/session.js";
import { stage } from "vgcrl/stage.js";
import { transport } from "vgcrl/transport.js";
import { number } from "vgcrl/words.js";

const LATE = 0.1; // seconds: a browser that falls behind by more slows time down
const AWAKE = 700; // milliseconds of drawing after something happened while time stands still
const PANEL = 60; // milliseconds between updates of the panel while nothing is changed by hand

let awake = 0;
let changed = false; // since the last frame: the next one shows it, however soon or late it comes
const wake = () => { awake = performance.now() + AWAKE; };
["pointerdown", "pointermove", "wheel", "keydown", "resize"].forEach((kind) => addEventListener(kind, wake, { passive: true, capture: true }));

let silence = 0;
function say(text) {
  byId("note").textContent = text;
  byId("note").classList.add("shown");
  clearTimeout(silence);
  silence = setTimeout(() => byId("note").classList.remove("shown"), 3500);
}

function fail(text) {
  byId("trouble").textContent = text;
  byId("trouble").hidden = false;
  byId("loading").hidden = true;
  document.body.classList.add("failed");
}

async function mujocoModule() {
  if (typeof WebAssembly === "undefined") throw new Error("This browser has no WebAssembly, which the simulation needs. Please open the page in a current Firefox, Chrome, Edge or Safari.");
  const [{ default: load }, wasmBinary] = [await unpackAsset("mujoco.js"), await unpackAsset("mujoco.wasm")];
  return load({ wasmBinary });
}

// simulate(i) makes a simulation for policy i; look(show) the view of it.
async function worldOf(run) {
  const canvas = byId("view");
  if (run.world.kind === "pointmass") {
    return { simulate: (i) => loadPointMass(run, run.policies[i].projection).simulation(), look: (show) => arenaView(canvas, show) };
  }
  const [mujoco, THREE] = [await mujocoModule(), await unpackAsset("three.js")];
  const body = loadBody(mujoco, run);
  return { simulate: () => body.simulation(), look: (show) => stage(THREE, canvas, show) };
}

function status(show) {
  const { sim } = show.main;
  const [x, y] = sim.place();
  const [vx, vy] = sim.velocity();
  const speed = Math.hypot(vx, vy);
  byId("clock").textContent = `${sim.time().toFixed(1)} s   at (${number(x, 1)}, ${number(y, 1)}) m   ${number(speed, 1)} m/s${show.noise ? "   with noise" : ""}${sim.fallen() ? "   fallen: press R for a fresh start" : ""}`;
}

function live(show, view, side, time) {
  let [before, owed, shown] = [0, 0, 0];
  const size = show.run.spec.seconds / show.main.sim.substeps;
  const frame = (now) => {
    const passed = Math.min((now - before) / 1000, LATE);
    before = now;
    if (time.state.playing && !document.hidden) {
      owed += passed * time.state.speed;
      for (; owed >= size; owed -= size) show.substep();
    }
    requestAnimationFrame(frame);
    if (!time.state.playing && now > awake && !changed) return;
    view.draw(time.state.playing ? owed / size : 1);
    if (changed || now - shown > PANEL) {
      side.update();
      status(show);
      shown = now;
    }
    changed = false;
  };
  requestAnimationFrame(frame);
}

function api(show, view, time) {
  const { run } = show;
  return {
    // What can be pursued: kind and dimension, and all skills or the bounds of z.
    goals: () => {
      const { kind, dim, size, low, high } = show.goals;
      const range = size ? { all: Array.from({ length: size }, (_, i) => i) } : { low, high };
      return { kind, dim, meaning: run.meaning, current: show.goals.show(show.main.z), ...range };
    },
    setGoal: (z) => show.setGoal(z),
    setTarget: (state) => show.setTarget(state),
    observation: () => [...show.main.sim.observation()],
    // Whole steps of the environment; time stands still between calls.
    step: (count = 1) => { time.play(false); show.step(count); return [...show.main.sim.observation()]; },
    // The same seed gives the same start, and the same noise.
    reset: (seed = 0) => { show.reset(seed); return [...show.main.sim.observation()]; },
    play: (on = true) => time.play(on),
    goTo: (place) => show.goTo(place),
    place: () => show.main.sim.place(),
    setNoise: (on) => { show.setNoise(on); time.label(); },
    noise: () => show.noise,
    // The mode of the policy, or with standard normal numbers a sample of it.
    act: (obs, z, normals) => [...show.main.mind.act(obs, show.goals.read(z), normals)],
    embed: (state) => show.goals.show(show.main.mind.embed(state)),
    aim: (obs, target) => show.goals.show(show.main.mind.aim(obs, target)),
    opinion: () => show.main.opinion && { value: show.main.opinion.value, mode: show.goals.show(show.main.opinion.mode) },
    // log q(z|s) − log p(z) of a state at rest.
    ratio: (state, z) => show.main.mind.at(state).logProb(show.goals.read(z)) - show.goals.logProb(show.goals.read(z)),
    policies: () => [...show.labels],
    choose: (index) => show.choose(index),
    compare: (index) => show.compare(index),
    // The simulation itself: positions and velocities, and steps with given actions in [−1, 1].
    getState: () => show.main.sim.get(),
    setState: (state) => show.main.sim.set(state),
    drive: (actions) => {
      time.play(false);
      actions.forEach((action) => { show.main.sim.begin(action); while (!show.main.sim.substep()); });
      return show.main.sim.get();
    },
    pixelOf: (place) => view.project(place),
    run: { method: run.method, env: run.env, steps: run.steps },
  };
}

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("This browser is too old to unpack the page. Please open it in a current Firefox, Chrome, Edge or Safari.");
  const run = await unpackJson("run");
  if (run.world.kind === "recorded") return recorded(run);
  const { simulate, look } = await worldOf(run);
  let [view, side] = [null, null];
  const show = session(run, simulate, () => { changed = true; wake(); view?.change(); side?.change(); });
  view = look(show);
  side = panel(show, say);
  side.change();
  const time = transport(show, view, say);
  view.onGround = (place) => {
    if (!show.goTo(place)) say("Goals of this policy are no places: choose one in the panel.");
    else if (!time.state.playing) time.play(true);
  };
  byId("loading").hidden = true;
  live(show, view, side, time);
  return api(show, view, time);
}

const ready = start();
window.vgcrl = { ready };
ready.then((found) => Object.assign(window.vgcrl, found), (error) => fail(error.message));
