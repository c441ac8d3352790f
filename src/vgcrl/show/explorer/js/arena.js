// The point mass from above: its arena, what q makes of every place, wind, trail, and where it is to go.
import { BODY, GOAL, INK, RIVAL, skillColour } from "vgcrl/colours.js";
import { arrow, disc } from "vgcrl/pen.js";
import { paintPosterior } from "vgcrl/posterior_picture.js";

const MARGIN = 46; // pixels around the arena
const FOOT = 124; // for axis labels and the buttons
const PUSH = 6; // newtons for each metre that the mouse drags
const WINDS = 9; // arrows on a side

export function arenaView(canvas, show) {
  const { run } = show;
  const { arena, wind, dims } = run.world;
  const pen = canvas.getContext("2d");
  const flat = dims === 1;
  let [scale, middle, painted, key] = [1, [0, 0], null, ""];
  const pixel = ([x, y = 0]) => [middle[0] + scale * x, middle[1] - scale * y];
  const metres = (event) => {
    const box = canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    return [(px - middle[0]) / scale, flat ? 0 : (middle[1] - py) / scale];
  };
  const palette = (i, alpha) => skillColour(i, show.goals.size, alpha);

  function fit() {
    const ratio = Math.min(devicePixelRatio, 2);
    const [w, h] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      [canvas.width, canvas.height] = [Math.round(w * ratio), Math.round(h * ratio)];
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const top = h < 480 ? 60 : 96; // the title is there
    scale = Math.max(10, Math.min(w - 2 * MARGIN, h - top - FOOT)) / (2 * arena);
    middle = [w / 2, top + (h - top - FOOT) / 2];
  }

  function ground() {
    const [left, top] = pixel([-arena, arena]);
    const side = 2 * arena * scale;
    pen.fillStyle = "#fff";
    pen.fillRect(left, top, side, side);
    const { mind, z } = show.main;
    const now = JSON.stringify([show.main.index, mind.goals.kind === "discrete" || z]);
    if (mind.hasPosterior && run.world.place.length === 2 && run.sees === "state" && now !== key) {
      [painted, key] = [paintPosterior(run, mind, z, palette), now];
    }
    pen.imageSmoothingEnabled = true;
    if (painted) pen.drawImage(painted.canvas, left, top, side, side);
    pen.textAlign = "center";
    pen.font = "600 15px system-ui, sans-serif";
    painted?.surest.forEach(({ z: skill, place }) => {
      const [px, py] = pixel(place.map((v) => Math.min(Math.max(v, -0.93 * arena), 0.93 * arena)));
      pen.fillStyle = palette(skill, 0.8);
      pen.fillText(String(skill), px, py + 5);
    });
    pen.strokeStyle = "#c9c4b6";
    pen.lineWidth = 1.5;
    pen.strokeRect(left, top, side, side);
    pen.fillStyle = "#8b867a";
    pen.font = "12px system-ui, sans-serif";
    [-arena, 0, arena].forEach((v) => {
      const text = String(v).replace("-", "−");
      pen.fillText(text, pixel([v, 0])[0], top + side + 17);
      if (!flat) pen.fillText(text, left - 18, pixel([0, v])[1] + 4);
    });
    pen.fillText("x, m", left + 0.75 * side, top + side + 17);
    if (!flat) pen.fillText("y, m", left - 22, top + 0.25 * side);
  }

  // The gust of this step over the arena: the same force everywhere.
  function gusts() {
    const strongest = Math.max(...wind.slice(0, 2));
    if (!strongest) return;
    const gust = show.main.sim.gust();
    const reach = (0.7 * 2 * arena * scale) / WINDS / strongest;
    for (let i = 0; i < WINDS; i++) for (let j = 0; j < WINDS; j++) {
      const at = pixel([-arena + (2 * arena * (i + 0.5)) / WINDS, -arena + (2 * arena * (j + 0.5)) / WINDS]);
      const [dx, dy] = [reach * gust[0], -reach * (gust[1] ?? 0)];
      arrow(pen, [at[0] - dx / 2, at[1] - dy / 2], [dx, dy], "rgb(90 110 140 / 0.28)", 1.5);
    }
  }

  function path(points, colour) {
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.lineJoin = "round";
    pen.beginPath();
    points.slice(-600).forEach((p, i) => pen[i ? "lineTo" : "moveTo"](...pixel(p)));
    pen.stroke();
  }

  // How exactly q means a state: one σ around the mass, where goals are states.
  function sigma(who, at) {
    const spread = who.opinion?.distribution.spread?.();
    if (run.meaning === "latent" || !spread) return;
    const axis = (k) => spread[run.features.indexOf(run.world.place[k])] ?? 0;
    pen.save();
    pen.beginPath();
    pen.rect(...pixel([-arena, arena]), 2 * arena * scale, 2 * arena * scale);
    pen.clip();
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.ellipse(...at, Math.max(scale * axis(0), 1), Math.max(scale * axis(1), 1), 0, 0, 2 * Math.PI);
    pen.strokeStyle = BODY;
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.restore();
  }

  function goalMark() {
    const { main, intent } = show;
    const place = run.world.place;
    const isState = run.meaning !== "latent" && intent.kind === "goal";
    const spot = isState ? place.map((i) => main.z[run.features.indexOf(i)]) : intent.kind === "target" ? place.map((i) => intent.state[i]) : null;
    if (!spot || spot.some((v) => v === undefined)) return;
    const at = pixel(spot);
    disc(pen, at, 11, null, GOAL);
    disc(pen, at, 3.5, GOAL);
  }

  let [pushing, down] = [null, null];
  canvas.addEventListener("pointerdown", (event) => {
    down = metres(event);
    const here = show.main.sim.place();
    if (Math.hypot(down[0] - here[0], down[1] - here[1]) * scale < 18) pushing = down;
  });
  addEventListener("pointermove", (event) => {
    if (!pushing) return;
    const here = show.main.sim.place();
    pushing = metres(event);
    show.main.sim.push([PUSH * (pushing[0] - here[0]), PUSH * (pushing[1] - here[1])]);
  });
  addEventListener("pointerup", (event) => {
    if (pushing) show.main.sim.push([0, 0]);
    else if (down && event.target === canvas) self.onGround(metres(event).map((v) => Math.min(Math.max(v, -arena), arena)));
    [pushing, down] = [null, null];
  });

  const self = {
    onGround: () => {},
    following: false,
    follow: () => {},
    change: () => {},
    project: (place) => {
      const box = canvas.getBoundingClientRect();
      const [x, y] = pixel(place);
      return [box.left + x, box.top + y];
    },
    draw: (share) => {
      fit();
      pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
      ground();
      gusts();
      goalMark();
      show.both().forEach((who) => {
        const colour = who === show.main ? (show.goals.kind === "discrete" ? palette(who.z, 1) : BODY) : RIVAL;
        path(who.trail, colour);
        const at = pixel(who.sim.between(share));
        if (who === show.main) sigma(who, at);
        disc(pen, at, 9, colour, "#fff");
        if (who === show.main && pushing) arrow(pen, at, pixel(pushing).map((v, i) => v - at[i]), INK, 2.5);
      });
    },
  };
  fit();
  return self;
}
