// Posteriors q(z|s): a row per kind, the same rows as POSTERIORS of networks.py. Each builds, from data,
// of(inputs) -> distribution; `unbounded` where it is not normalised.
import { argmax, categorical, dot, fullNormal, huber, logSumExp, mixture, normal, vonMisesFisher } from "vgcrl/distributions.js";
import { linear, mlp, rows, tensor, trunk } from "vgcrl/networks.js";

const unit = (x) => {
  const length = Math.sqrt(dot(x, x) + 1e-12);
  return x.map((v) => v / length);
};

const clipped = (x, [low, high]) => x.map((v) => Math.min(Math.max(v, low), high));

const MEANS = { identity: () => (s) => s, matrix: (m) => linear(m), head: (m) => linear(m) };

function gaussian({ trunk: layers, mean, scale, full, robust, clip }) {
  const hidden = trunk(layers);
  const centre = MEANS[mean.kind](mean);
  const head = scale.head && linear(scale.head);
  const constant = scale.constant && tensor(scale.constant).data;
  const density = robust ? huber : full ? fullNormal : normal;
  return {
    of: (s) => {
      const h = hidden(s);
      const mu = centre(mean.kind === "head" ? h : s);
      if (constant) return density(mu, constant);
      const raw = head(h);
      const stds = clipped(raw.subarray(0, mu.length), clip);
      return density(mu, Float32Array.from([...stds, ...raw.subarray(mu.length)]));
    },
  };
}

function floored({ near: data, share }, goals) {
  const near = gaussian(data);
  return {
    of: (s) => {
      const q = near.of(s);
      const logProb = (z) => logSumExp([Math.log(1 - share) + q.logProb(z), Math.log(share) + goals.logProb(z)]);
      return { ...q, logProb };
    },
  };
}

function mixed({ trunk: layers, weights, mean, log_std: logStd, components, clip }) {
  const [hidden, w, m, s] = [trunk(layers), linear(weights), linear(mean), linear(logStd)];
  return {
    of: (x) => {
      const h = hidden(x);
      const [mu, std] = [m(h), clipped(s(h), clip)];
      const width = mu.length / components;
      const part = (k) => [mu, std].map((v) => v.subarray(k * width, (k + 1) * width));
      return mixture(w(h), Array.from({ length: components }, (_, k) => normal(...part(k))));
    },
  };
}

function dynamics({ model, scale, skills }) {
  const [net, sizes] = [mixed(model), tensor(scale).data];
  const oneHot = (z) => Float32Array.from({ length: skills }, (_, i) => (i === z ? 1 : 0));
  return {
    of: (x) => {
      const half = x.length / 2;
      const s = x.slice(0, half);
      const change = sizes.map((v, i) => (x[half + i] - x[i]) / v);
      const evidence = (z) => net.of(Float32Array.from([...s, ...oneHot(z)])).logProb(change);
      return categorical(Array.from({ length: skills }, (_, z) => evidence(z)));
    },
  };
}

function similarity({ net: layers, decoys, scale }) {
  const net = mlp(layers);
  const embed = (s) => unit(net(s));
  const others = rows(tensor(decoys)).map(embed);
  return {
    of: (s) => {
      const e = embed(s);
      const rest = logSumExp(others.map((o) => scale * dot(o, e)));
      return {
        logProb: (z) => {
          const own = scale * dot(embed(Float32Array.from(z)), e);
          return own - logSumExp([own, rest]);
        },
        mode: () => Array.from(s),
        expect: (f) => Array.from(s, f),
      };
    },
  };
}

function displacement({ net: layers, categories: k }, goals) {
  const phi = mlp(layers);
  // A category is a corner of a simplex around 0.
  const code = (z) => (k ? Array.from({ length: k }, (_, i) => (((i === z ? 1 : 0) - 1 / k) * k) / (k - 1)) : z);
  return {
    unbounded: true,
    of: (x) => {
      const half = x.length / 2;
      const [from, to] = [phi(x.subarray(0, half)), phi(x.subarray(half))];
      const change = to.map((v, i) => v - from[i]);
      const direction = unit(change);
      return {
        logProb: (z) => dot(code(z), change) + goals.logProb(z),
        mode: () => (k ? argmax(change) : Array.from(direction)),
        expect: (f) => Array.from(direction, f),
        probabilities: () => categorical(change.map((v) => (v * k) / (k - 1))).probabilities(),
      };
    },
  };
}

const withNet = (build) => (data) => {
  const net = mlp(data.net);
  return { of: (s) => build(net(s), data) };
};

export const POSTERIORS = {
  categorical: withNet(categorical),
  gaussian,
  floored,
  mixture: mixed,
  vmf: withNet((x, data) => vonMisesFisher(unit(x), data)),
  dynamics,
  similarity,
  displacement,
};

export const posterior = (data, goals) => (data ? POSTERIORS[data.kind](data, goals) : null);
