// How one chooses a goal: buttons for skills, a pad for two dimensions, sliders for one or many.
import { BODY, GOAL, skillColour } from "vgcrl/colours.js";
import { element } from "vgcrl/dom.js";
import { number } from "vgcrl/words.js";

// A button per skill; how full it is says how likely q finds that skill.
function skills(show) {
  const { size } = show.goals;
  const buttons = Array.from({ length: size }, (_, i) => {
    const fill = element("span", { className: "fill" });
    fill.style.background = skillColour(i, size, 0.45);
    const button = element("button", { type: "button", title: `Pursue skill ${i}`, onclick: () => show.setGoal(i) }, fill, element("span", { className: "number" }, String(i)));
    button.style.setProperty("--hue", skillColour(i, size));
    return { button, fill };
  });
  return {
    root: element("div", { className: "skills", role: "group", ariaLabel: "Skills" }, ...buttons.map((b) => b.button)),
    update: (z, opinion) => {
      const likely = opinion?.distribution.probabilities();
      buttons.forEach(({ button, fill }, i) => {
        button.setAttribute("aria-pressed", String(i === z));
        fill.style.height = `${100 * (likely?.[i] ?? 0)}%`;
      });
    },
  };
}

// Two dimensions: a dot to drag, and a ring where q sees the goal now.
function pad(show) {
  const { low, high, round } = show.goals;
  const [size, edge] = [224, 16];
  const canvas = element("canvas", { className: "pad", tabIndex: 0, ariaLabel: "Goal in two dimensions: drag, or use the arrow keys" });
  canvas.setAttribute("role", "application");
  const pen = canvas.getContext("2d");
  const pixel = (z) => z.map((v, i) => {
    const share = (v - low[i]) / (high[i] - low[i]);
    return edge + (i ? 1 - share : share) * (size - 2 * edge);
  });
  const value = (event) => {
    const box = canvas.getBoundingClientRect();
    const at = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height].map((v) => (v * size - edge) / (size - 2 * edge));
    return [at[0], 1 - at[1]].map((v, i) => low[i] + Math.min(Math.max(v, 0), 1) * (high[i] - low[i]));
  };
  const set = (z) => { if (!round || Math.hypot(...z) > 1e-6) show.setGoal(z); };
  let dragging = false;
  canvas.addEventListener("pointerdown", (event) => { dragging = true; canvas.setPointerCapture(event.pointerId); set(value(event)); });
  canvas.addEventListener("pointermove", (event) => { if (dragging) set(value(event)); });
  canvas.addEventListener("pointerup", () => { dragging = false; });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const z = show.goals.show(show.main.z);
    set(z.map((v, i) => Math.min(Math.max(v + (step[i] * (high[i] - low[i])) / 20, low[i]), high[i])));
  });

  function frame() {
    const ratio = Math.min(devicePixelRatio, 2);
    [canvas.width, canvas.height] = [size * ratio, size * ratio];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = "#fff";
    pen.strokeStyle = "#d5d0c3";
    pen.beginPath();
    if (round) pen.arc(size / 2, size / 2, size / 2 - edge, 0, 2 * Math.PI);
    else pen.roundRect(edge, edge, size - 2 * edge, size - 2 * edge, 8);
    pen.fill();
    pen.stroke();
    const zero = pixel([Math.max(low[0], Math.min(0, high[0])), Math.max(low[1], Math.min(0, high[1]))]);
    pen.beginPath();
    pen.moveTo(zero[0], edge); pen.lineTo(zero[0], size - edge);
    pen.moveTo(edge, zero[1]); pen.lineTo(size - edge, zero[1]);
    pen.strokeStyle = "#ebe7dc";
    pen.stroke();
    return zero;
  }
  function dot(at, radius, fill, stroke) {
    pen.beginPath();
    pen.arc(...at.map((v) => Math.min(Math.max(v, 4), size - 4)), radius, 0, 2 * Math.PI);
    if (fill) { pen.fillStyle = fill; pen.fill(); }
    if (stroke) { pen.strokeStyle = stroke; pen.lineWidth = 2.5; pen.stroke(); }
  }
  return {
    root: canvas,
    update: (z, opinion) => {
      const zero = frame();
      const goal = pixel(show.goals.show(z));
      if (show.run.meaning === "velocity" || round) {
        pen.beginPath();
        pen.moveTo(...zero); pen.lineTo(...goal);
        pen.strokeStyle = GOAL;
        pen.lineWidth = 2;
        pen.stroke();
      }
      pen.lineWidth = 1;
      dot(goal, 8, GOAL, "#fff");
      if (opinion) dot(pixel(show.goals.show(opinion.mode)), 8, null, BODY);
    },
  };
}

// A slider for each dimension, with a tick where q sees the goal now.
function sliders(show) {
  const { low, high, dim } = show.goals;
  const change = (i) => (event) => {
    const z = [...show.goals.show(show.main.z)];
    z[i] = Number(event.target.value);
    show.setGoal(z);
  };
  const rows = Array.from({ length: dim }, (_, i) => {
    const name = show.run.goal_names[i];
    const input = element("input", { type: "range", min: low[i], max: high[i], step: (high[i] - low[i]) / 100, ariaLabel: name, oninput: change(i) });
    const [tick, output] = [element("span", { className: "tick" }), element("output")];
    return { input, tick, output, root: element("label", { className: "slider" }, element("span", { className: "name" }, name), element("span", { className: "track" }, input, tick), output) };
  });
  return {
    root: element("div", { className: "sliders" }, ...rows.map((row) => row.root)),
    update: (z, opinion) => {
      const shown = show.goals.show(z);
      const mode = opinion && show.goals.show(opinion.mode);
      rows.forEach(({ input, tick, output }, i) => {
        input.value = shown[i];
        output.textContent = number(shown[i]);
        tick.hidden = !mode;
        if (mode) tick.style.left = `${100 * Math.min(Math.max((mode[i] - low[i]) / (high[i] - low[i]), 0), 1)}%`;
      });
    },
  };
}

export function picker(show) {
  if (show.goals.kind === "discrete") return skills(show);
  return show.goals.dim === 2 ? pad(show) : sliders(show);
}
