// Distributions over goals: logProb(z), mode(), expect(f) of an elementwise f; spread() for drawing, where there is one.

const LOG_2PI = Math.log(2 * Math.PI);
const HUBER = Math.log(Math.sqrt(2 * Math.PI) * 0.6826894921370859 + 2 * Math.exp(-0.5));

export const sum = (values) => values.reduce((a, b) => a + b, 0);
export const dot = (a, b) => a.reduce((total, v, i) => total + v * b[i], 0);

export function argmax(values) {
  let best = 0;
  values.forEach((v, i) => { if (v > values[best]) best = i; });
  return best;
}

export function logSumExp(values) {
  const top = values.reduce((a, b) => Math.max(a, b), -Infinity);
  return top + Math.log(values.reduce((total, v) => total + Math.exp(v - top), 0));
}

// E f(m + s x) over x with the given unnormalised log-density, by the trapezoid rule.
function expect(f, mean, std, reach, count, logDensity) {
  const nodes = Array.from({ length: count }, (_, i) => -reach + (2 * reach * i) / (count - 1));
  const weights = nodes.map((x) => Math.exp(logDensity(Math.abs(x))));
  const total = sum(weights);
  return Array.from(mean, (m, i) => weights.reduce((a, w, k) => a + w * f(m + std[i] * nodes[k]), 0) / total);
}

export function categorical(logits) {
  const norm = logSumExp(logits);
  return {
    logProb: (z) => logits[z] - norm,
    mode: () => argmax(logits),
    probabilities: () => Array.from(logits, (x) => Math.exp(x - norm)),
  };
}

export function normal(mean, logStd) {
  const std = Array.from(logStd, Math.exp);
  return {
    logProb: (z) => sum(std.map((s, i) => -0.5 * (((z[i] - mean[i]) / s) ** 2 + LOG_2PI) - logStd[i])),
    mode: () => Array.from(mean),
    expect: (f) => expect(f, mean, std, 6, 401, (x) => (-x * x) / 2),
    spread: () => std,
  };
}

export function huber(mean, logScale) {
  const scale = Array.from(logScale, Math.exp);
  const loss = (x) => (x <= 1 ? (x * x) / 2 : x - 0.5);
  return {
    logProb: (z) => -sum(scale.map((s, i) => loss(Math.abs(z[i] - mean[i]) / s) + logScale[i] + HUBER)),
    mode: () => Array.from(mean),
    expect: (f) => expect(f, mean, scale, 16, 1601, (x) => -loss(x)),
    spread: () => scale,
  };
}

// Covariance L Lᵀ; raw is the logarithm of the diagonal of L, then its strict lower triangle by rows.
export function fullNormal(mean, raw) {
  const d = mean.length;
  const L = Array.from({ length: d }, () => new Array(d).fill(0));
  for (let i = 0, k = d; i < d; i++) {
    L[i][i] = Math.exp(raw[i]);
    for (let j = 0; j < i; j++) L[i][j] = raw[k++];
  }
  const std = L.map((row) => Math.hypot(...row));
  return {
    logProb: (z) => {
      const e = [];
      for (let i = 0; i < d; i++) e.push((z[i] - mean[i] - sum(e.map((v, j) => L[i][j] * v))) / L[i][i]);
      return -0.5 * sum(e.map((v) => v * v + LOG_2PI)) - sum(L.map((row, i) => Math.log(row[i])));
    },
    mode: () => Array.from(mean),
    expect: (f) => expect(f, mean, std, 6, 401, (x) => (-x * x) / 2),
    spread: () => std,
  };
}

export function mixture(logits, components) {
  const { logProb: weight } = categorical(logits);
  const logProb = (z) => logSumExp(components.map((c, k) => weight(k) + c.logProb(z)));
  return {
    logProb,
    mode: () => {
      const means = components.map((c) => c.mode());
      return means[argmax(means.map(logProb))];
    },
    expect: (f) => {
      const each = components.map((c) => c.expect(f));
      return each[0].map((_, i) => sum(each.map((e, k) => Math.exp(weight(k)) * e[i])));
    },
  };
}

export function vonMisesFisher(direction, { kappa, log_norm: logNorm, length }) {
  return {
    logProb: (z) => kappa * dot(direction, z) + logNorm,
    mode: () => Array.from(direction),
    expect: (f) => Array.from(direction, (v) => f(length * v)),
  };
}
