// What q makes of every place of an arena, as a small picture.

const GRID = 81; // places on a side at which q is asked

// Places of the arena as states at rest, with the other dimensions as they are now.
function stateAt(run, x, y) {
  const state = new Float32Array(run.spec.obs_dim);
  run.world.place.forEach((i, k) => { state[i] = [x, y][k]; });
  return state;
}

// A picture of q over the arena: the likeliest skill, or how well each place suits the goal pursued.
export function paintPosterior(run, mind, z, palette) {
  const canvas = Object.assign(document.createElement("canvas"), { width: GRID, height: GRID });
  const pen = canvas.getContext("2d");
  const { arena } = run.world;
  const at = (i) => -arena + (2 * arena * (i + 0.5)) / GRID;
  const values = [];
  for (let j = 0; j < GRID; j++) for (let i = 0; i < GRID; i++) values.push(mind.at(stateAt(run, at(i), -at(j))));
  const surest = new Map(); // of each skill: the place at which q is surest of it
  if (mind.goals.kind === "discrete") {
    values.forEach((q, k) => {
      const best = q.mode();
      const sure = q.logProb(best);
      if (!(surest.get(best)?.sure >= sure)) surest.set(best, { z: best, sure, place: [at(k % GRID), -at(Math.floor(k / GRID))] });
      pen.fillStyle = palette(best, 0.1 + 0.3 * Math.exp(q.logProb(best)));
      pen.fillRect(k % GRID, Math.floor(k / GRID), 1, 1);
    });
  } else {
    const ratio = values.map((q) => q.logProb(z) - mind.goals.logProb(z));
    const top = ratio.reduce((a, b) => Math.max(a, b), -Infinity);
    const low = Math.max(top - 4, ratio.reduce((a, b) => Math.min(a, b), Infinity));
    ratio.forEach((r, k) => {
      const share = Math.min(Math.max((r - low) / (top - low + 1e-9), 0), 1);
      pen.fillStyle = `rgb(31 138 91 / ${0.32 * share * share})`;
      pen.fillRect(k % GRID, Math.floor(k / GRID), 1, 1);
    });
  }
  return { canvas, surest: [...surest.values()] };
}
