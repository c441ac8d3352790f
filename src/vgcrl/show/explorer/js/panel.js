// The panel beside the stage: the goal, q's opinion, whose policy acts, a target state, and what this is.
import { drawChart } from "vgcrl/chart.js";
import { byId, element } from "vgcrl/dom.js";
import { picker } from "vgcrl/pickers.js";
import { goalText, heading, invitation, legend, number, opinionText, pickerText } from "vgcrl/words.js";

function about(run) {
  const facts = [
    ...(run.about ? [["What", run.about]] : []),
    ["Method", `${run.method}, q = ${run.q}`],
    ["Environment", run.env],
    ["Trained", `${run.steps.toLocaleString("en")} steps`],
    ...(run.noise ? [["Acts", "with the noise of its training, unless switched off (Noise)"]] : []),
    ...Object.entries(run.measured).map(([name, value]) => [name, number(value, 3)]),
    ...(run.command ? [["Command", run.command]] : []),
  ];
  byId("facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function choices(show, say) {
  const [seed, rival] = [byId("seed"), byId("rival")];
  show.labels.forEach((label, i) => seed.append(element("option", { value: i }, label)));
  rival.append(element("option", { value: "" }, "none"));
  show.labels.forEach((label, i) => rival.append(element("option", { value: i }, label)));
  seed.onchange = () => show.choose(Number(seed.value));
  rival.onchange = () => show.compare(rival.value === "" ? null : Number(rival.value));
  byId("policies").hidden = show.labels.length < 2;
  const target = byId("target");
  byId("take").onclick = () => { target.value = [...show.main.sim.observation()].map((v) => +v.toFixed(3)).join(", "); };
  byId("aim").onclick = () => {
    try {
      show.setTarget(target.value.split(/[\s,;]+/).filter(Boolean).map(Number));
      say("Going for that state.");
    } catch (error) {
      say(error.message);
    }
  };
  target.placeholder = show.run.world.names.slice(0, 6).join(", ") + (show.run.world.names.length > 6 ? ", …" : "");
  byId("width").textContent = show.run.spec.obs_dim;
}

export function panel(show, say) {
  const { run } = show;
  let chosen = null;
  document.title = `${heading(run)} — vgcrl`;
  byId("name").textContent = heading(run);
  about(run);
  choices(show, say);

  function change() {
    const { mind } = show.main;
    byId("seed").value = show.main.index;
    byId("rival").value = show.rival ? show.rival.index : "";
    if (!chosen || chosen.index !== show.main.index) {
      chosen = { index: show.main.index, ...picker(show) };
      byId("picker").replaceChildren(chosen.root);
      byId("picker-text").textContent = pickerText(run, mind.goals, mind.hasPosterior);
      byId("invitation").textContent = invitation(run, mind.goals);
      byId("opinion-text").textContent = mind.hasPosterior ? opinionText(mind, run) : "This page does not know the posterior of this method: it acts, but q is not shown.";
      byId("legend").textContent = legend(run, mind.goals, mind.hasPosterior);
      byId("chart").hidden = byId("numbers").hidden = !mind.hasPosterior;
    }
  }
  function update() {
    const { main, intent } = show;
    chosen.update(main.z, main.opinion);
    const aim = { goal: "", target: ", for a target state", steer: ", towards the place clicked" }[intent.kind];
    byId("goal").textContent = goalText(run, main.mind.goals, main.z) + aim;
    byId("value").textContent = main.opinion ? number(main.opinion.value) : "–";
    byId("mode").textContent = main.opinion ? goalText(run, main.mind.goals, main.opinion.mode) : "–";
    drawChart(byId("chart"), main.history, main.mind.best);
  }
  return { change, update };
}
