// Goal spaces: a row per kind, the same rows as GOALS of networks.py. A goal is carried in the coordinates used inside;
// read and show translate from and to what a person writes; sample takes a generator of random.js.
import { rows, tensor } from "vgcrl/networks.js";

const fits = (z, dim) => Array.isArray(z) && z.length === dim && z.every(Number.isFinite);
const unit = (z) => {
  const length = Math.hypot(...z);
  return z.map((v) => v / length);
};
const inside = (v) => Math.min(Math.max(v, -1 + 1e-6), 1 - 1e-6);

function vectors({ dim, entropy }) {
  return {
    dim,
    embed: (z) => z,
    show: (z) => Array.from(z),
    logProb: () => -entropy,
    read: (z) => {
      if (!fits(z, dim)) throw new Error(`a goal here is ${dim} finite numbers, not ${JSON.stringify(z)}`);
      return z;
    },
    point: (q) => q.expect((v) => v),
  };
}

const GOALS = {
  discrete: ({ size, dim, entropy }) => ({
    dim,
    size,
    embed: (z) => Float32Array.from({ length: size }, (_, i) => (i === z ? 1 : 0)),
    show: (z) => z,
    logProb: () => -entropy,
    read: (z) => {
      if (!Number.isInteger(z) || z < 0 || z >= size) throw new Error(`a goal here is an integer from 0 to ${size - 1}`);
      return z;
    },
    point: (q) => q.mode(),
    sample: (random) => Math.floor(random.uniform() * size),
  }),
  box: (data) => {
    const { low, high } = data;
    return { ...vectors(data), low, high, sample: (random) => low.map((a, i) => a + (high[i] - a) * random.uniform()) };
  },
  "tanh-box": (data) => {
    const space = vectors(data);
    const side = (v) => Array(data.dim).fill(v);
    return {
      ...space,
      low: side(-1),
      high: side(1),
      embed: (z) => z.map(Math.tanh),
      show: (z) => z.map(Math.tanh),
      read: (z) => space.read(z).map((v) => Math.atanh(inside(v))),
      logProb: (z) => z.reduce((total, u) => total + Math.log(2) - 2 * (Math.abs(u) + Math.log1p(Math.exp(-2 * Math.abs(u)))), 0),
      point: (q) => q.expect(Math.tanh).map((v) => Math.atanh(inside(v))),
      sample: (random) => side(0).map(() => Math.atanh(inside(2 * random.uniform() - 1))),
    };
  },
  sphere: (data) => {
    const space = vectors(data);
    const side = (v) => Array(data.dim).fill(v);
    return {
      ...space,
      low: side(-1),
      high: side(1),
      round: true,
      read: (z) => {
        if (!space.read(z).some((v) => v)) throw new Error("a goal here is a direction, not zero");
        return unit(z);
      },
      point: (q) => {
        const mean = q.expect((v) => v);
        return mean.map((v) => v / Math.max(Math.hypot(...mean), 1e-12));
      },
      sample: (random) => unit(side(0).map(random.normal)),
    };
  },
  normals: (data) => {
    const space = vectors(data);
    const side = (v) => Array(data.dim).fill(v);
    return {
      ...space,
      low: side(-2.5),
      high: side(2.5),
      logProb: (z) => -0.5 * z.reduce((total, v) => total + v * v + Math.log(2 * Math.PI), 0),
      point: (q) => {
        const mean = q.expect((v) => v);
        const length = Math.max(Math.hypot(...mean), 1e-12);
        return mean.map((v) => (Math.sqrt(data.dim) * v) / length);
      },
      sample: (random) => side(0).map(random.normal),
    };
  },
  visited: (data) => {
    const memory = rows(tensor(data.memory)).map((row) => Array.from(row));
    const ends = (pick) => memory[0].map((_, i) => pick(...memory.map((row) => row[i])));
    return {
      ...vectors(data),
      low: ends(Math.min),
      high: ends(Math.max),
      point: (q) => q.mode(),
      sample: (random) => memory[Math.floor(random.uniform() * memory.length)],
    };
  },
};

export const goalSpace = (data) => ({ kind: data.kind, ...GOALS[data.kind](data) });
