// Arrays and networks, as networks.py wrote them. Sums are in double precision, results in single, as observations are.

export function tensor({ shape, f32 }) {
  const bytes = Uint8Array.from(atob(f32), (c) => c.charCodeAt(0));
  return { shape, data: new Float32Array(bytes.buffer) };
}

export function rows({ shape, data }) {
  const width = shape[1];
  return Array.from({ length: shape[0] }, (_, i) => data.subarray(i * width, (i + 1) * width));
}

// x -> W x + b, with b where there is one.
export function linear({ weight, bias }) {
  const { shape, data } = tensor(weight);
  const b = bias ? tensor(bias).data : new Float32Array(shape[0]);
  const [height, width] = shape;
  return (x) => {
    const y = new Float32Array(height);
    for (let i = 0, k = 0; i < height; i++) {
      let sum = b[i];
      for (let j = 0; j < width; j++) sum += data[k++] * x[j];
      y[i] = sum;
    }
    return y;
  };
}

export const relu = (x) => x.map((v) => Math.max(v, 0));

// Layers with ReLU between them.
export function mlp(layers) {
  const each = layers.map(linear);
  return (x) => each.reduce((h, layer, i) => layer(i ? relu(h) : h), x);
}

// All of them with a ReLU, also the last: the features that heads read.
export function trunk(layers) {
  const net = mlp(layers);
  return layers.length ? (x) => relu(net(x)) : (x) => x;
}

export const INPUTS = {
  raw: (x) => x,
  symlog: (x) => x.map((v) => Math.sign(v) * Math.log1p(Math.abs(v))),
};
