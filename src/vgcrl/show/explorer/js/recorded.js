// Episodes that were recorded: pictures where the environment draws itself, and curves of its observation.
import { skillColour } from "vgcrl/colours.js";
import { byId, element } from "vgcrl/dom.js";
import { rows, tensor } from "vgcrl/networks.js";
import { number } from "vgcrl/words.js";

const CURVES = 8; // dimensions drawn

function drawCurves(pen, [left, top, width, height], episode, names, now) {
  const shown = names.slice(0, CURVES);
  shown.forEach((name, k) => {
    const values = episode.map((row) => row[k]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const band = height / shown.length;
    const x = (t) => left + (t / Math.max(episode.length - 1, 1)) * width;
    const y = (v) => top + (k + 0.85) * band - ((v - low) / (high - low || 1)) * 0.7 * band;
    pen.strokeStyle = skillColour(k, shown.length);
    pen.lineWidth = 2;
    pen.beginPath();
    values.forEach((v, t) => pen[t ? "lineTo" : "moveTo"](x(t), y(v)));
    pen.stroke();
    pen.fillStyle = "#6d685d";
    pen.font = "12px system-ui, sans-serif";
    pen.fillText(`${name}: ${number(values[Math.min(now, values.length - 1)], 3)}`, left, top + (k + 0.12) * band);
    pen.fillStyle = skillColour(k, shown.length);
    pen.beginPath();
    pen.arc(x(Math.min(now, values.length - 1)), y(values[Math.min(now, values.length - 1)]), 4, 0, 2 * Math.PI);
    pen.fill();
  });
}

export async function recorded(run) {
  const episodes = run.world.episodes.map((e) => ({ ...e, rows: rows(tensor(e.observations)), images: [] }));
  const decode = (data) => { const image = new Image(); image.src = `data:image/jpeg;base64,${data}`; return image.decode().then(() => image); };
  await Promise.all(episodes.map(async (e) => { e.images = await Promise.all(e.pictures.map(decode)); }));
  let [chosen, now, playing, owed, before, speed] = [0, 0, true, 0, 0, 1];
  const canvas = byId("view");
  const pen = canvas.getContext("2d");

  document.title = `${run.method} · ${run.env} — vgcrl`;
  byId("name").textContent = `${run.method} · ${run.env}`;
  byId("invitation").textContent = `Pick an episode: it was recorded${run.noise ? " with noise" : ""}, each for another goal.`;
  const buttons = episodes.map((e, i) => element("button", { type: "button", onclick: () => choose(i) }, e.label));
  byId("picker").replaceChildren(element("div", { className: "episodes", role: "group" }, ...buttons));
  document.querySelectorAll("aside section:not(:first-child), aside details:not(:last-child)").forEach((part) => { part.hidden = true; });
  byId("follow").hidden = byId("noise").hidden = true;
  byId("facts").replaceChildren(...[["Method", `${run.method}, q = ${run.q}`], ["Environment", run.env], ["Trained", `${run.steps.toLocaleString("en")} steps`]]
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));

  function choose(i) {
    [chosen, now] = [i, 0];
    byId("goal").textContent = episodes[i].label;
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(k === i)));
  }
  const play = (on = !playing) => { playing = on; byId("play").textContent = playing ? "Pause" : "Play"; };
  const step = (by = 1) => { now = Math.min(now + by, episodes[chosen].rows.length - 1); };
  [0.25, 0.5, 1, 2, 4].forEach((v) => byId("speed").append(new Option(`${v}×`, String(v), v === 1, v === 1)));
  byId("speed").onchange = (event) => { speed = Number(event.target.value); };
  byId("play").onclick = () => play();
  byId("step").onclick = () => { play(false); step(); };
  byId("reset").onclick = () => { now = 0; };
  addEventListener("keydown", (event) => {
    if (event.target.closest("button, select")) return;
    const act = { " ": () => play(), ".": () => { play(false); step(); }, r: () => { now = 0; }, n: () => choose((chosen + 1) % episodes.length) }[event.key];
    if (act) { act(); event.preventDefault(); }
  });

  function draw(time) {
    requestAnimationFrame(draw);
    owed += Math.min((time - before) / 1000, 0.1) * speed * (playing ? 1 : 0);
    before = time;
    const size = Math.max(run.spec.seconds < 1 ? run.spec.seconds : 0.05, 0.01);
    for (; owed >= size; owed -= size) now = (now + 1) % (episodes[chosen].rows.length + 20);
    const ratio = Math.min(devicePixelRatio, 2);
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [w * ratio, h * ratio];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { rows: seen, images, every } = episodes[chosen];
    const at = Math.min(now, seen.length - 1);
    const wide = images.length ? (run.world.names.length ? w * 0.55 : w) : 0;
    if (images.length) {
      const image = images[Math.min(Math.floor(at / every), images.length - 1)];
      pen.imageSmoothingEnabled = image.width > 100; // pixels of a small picture are to be seen
      const scale = Math.min((wide - 40) / image.width, (h - 200) / image.height);
      pen.drawImage(image, 20 + (wide - 40 - image.width * scale) / 2, 100, image.width * scale, image.height * scale);
    }
    drawCurves(pen, [wide + 30, 110, w - wide - 70, h - 220], seen, run.world.names, at);
    byId("clock").textContent = `step ${at} of ${seen.length - 1}`;
  }
  choose(0);
  byId("loading").hidden = true;
  requestAnimationFrame(draw);
  return {
    goals: () => episodes.map((e) => e.label),
    setGoal: choose,
    observation: () => [...episodes[chosen].rows[Math.min(now, episodes[chosen].rows.length - 1)]],
    step: (count = 1) => { play(false); step(count); },
    reset: () => { now = 0; },
    now: () => now,
    pictures: () => episodes[chosen].images.length,
    run: { method: run.method, env: run.env, steps: run.steps },
  };
}
