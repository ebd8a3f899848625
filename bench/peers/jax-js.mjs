// jax-js on WebAssembly or WebGPU. An array is used up by what it is given to; `.ref` keeps it.
import { device, load, serve, sizesOf, valuesOf } from './serve.mjs';

const {
  blockUntilReady,
  defaultDevice,
  init,
  jit,
  nn,
  numpy: np,
  tree,
  valueAndGrad,
} = await load('@jax-js/jax');
if (!(await init(device)).includes(device)) throw new Error(`jax-js has no device ${device} here`);
defaultDevice(device);

const arrayOf = (size, seed) => np.array(valuesOf(size, seed)).reshape(size.shape);
const rate = 1e-3;

/** A step of Adam that returns the loss. `data` are arrays that stay. */
const stepper = (sizes, lossOf, data) => {
  let weights = sizes.map(arrayOf);
  let means = sizes.map(({ shape }) => np.zeros(shape));
  let squares = sizes.map(({ shape }) => np.zeros(shape));
  const step = jit((weights, means, squares, firstRate, secondFactor, ...data) => {
    const [loss, gradients] = valueAndGrad((weights) => lossOf(weights, ...data))(
      weights.map((weight) => weight.ref),
    );
    const next = { weights: [], means: [], squares: [] };
    for (const [index, weight] of weights.entries()) {
      const gradient = gradients[index];
      const mean = means[index].mul(0.9).add(gradient.ref.mul(0.1));
      const square = squares[index].mul(0.999).add(gradient.ref.mul(gradient).mul(0.001));
      next.means.push(mean.ref);
      next.squares.push(square.ref);
      const scale = np.sqrt(square.mul(secondFactor.ref)).add(1e-8);
      next.weights.push(weight.sub(mean.mul(firstRate.ref).div(scale)));
    }
    return [loss, next.weights, next.means, next.squares];
  });
  let count = 0;
  return async () => {
    count += 1;
    const [loss, ...next] = step(
      weights,
      means,
      squares,
      np.array(rate / (1 - 0.9 ** count)),
      np.array(1 / (1 - 0.999 ** count)),
      ...data.map((array) => array.ref),
    );
    [weights, means, squares] = next;
    await blockUntilReady(tree.ref(weights));
    return await loss.jsAsync();
  };
};

const linear = (x, weight, bias) => np.matmul(x, weight).add(bias);
const crossEntropy = (logits, targets) =>
  nn.logSoftmax(logits, -1).mul(targets).sum(-1).mean().mul(-1);

function mlp({ widths, batch }) {
  const sizes = widths.slice(1).flatMap((to, index) => [
    { shape: [widths[index], to], deviation: 0.05 },
    { shape: [to], value: 0 },
  ]);
  const classes = widths.at(-1);
  const x = arrayOf({ shape: [batch, widths[0]], deviation: 1 }, 99);
  const labels = np.array(Int32Array.from({ length: batch }, (_, row) => row % classes));
  const lossOf = (weights, x, targets) => {
    let hidden = x;
    for (let layer = 0; layer < weights.length; layer += 2) {
      hidden = linear(hidden, weights[layer], weights[layer + 1]);
      if (layer < weights.length - 2) hidden = nn.relu(hidden);
    }
    return crossEntropy(hidden, targets);
  };
  return stepper(sizes, lossOf, [x, nn.oneHot(labels, classes)]);
}

function gpt(model) {
  const { layers, channels, heads, context, vocabulary, batch, tokens } = model;
  const rows = batch * context;
  const width = channels / heads;
  const data = [0, 1].map((offset) =>
    nn.oneHot(np.array(Int32Array.from(tokens[offset])), vocabulary),
  );
  const norm = (x, weight, bias) => {
    const centred = x.ref.sub(np.mean(x, -1, { keepdims: true }));
    const variance = np.mean(centred.ref.mul(centred.ref), -1, { keepdims: true });
    return centred
      .div(np.sqrt(variance.add(1e-5)))
      .mul(weight)
      .add(bias);
  };
  const lossOf = (weights, ids, next) => {
    let place = 0;
    const take = () => weights[place++];
    let x = np
      .matmul(ids, take())
      .reshape([batch, context, channels])
      .add(take().reshape([1, context, channels]))
      .reshape([rows, channels]);
    for (let layer = 0; layer < layers; layer++) {
      const qkv = linear(norm(x.ref, take(), take()), take(), take());
      const split = np.transpose(qkv.reshape([batch, context, 3, heads, width]), [2, 0, 1, 3, 4]);
      const [query, key, value] = [0, 1, 2].map((part) =>
        (part < 2 ? split.ref : split).slice(part),
      );
      const attended = nn.dotProductAttention(query, key, value, { isCausal: true });
      x = x.add(linear(attended.reshape([rows, channels]), take(), take()));
      const hidden = nn.gelu(linear(norm(x.ref, take(), take()), take(), take()), {
        approximate: false,
      });
      x = x.add(linear(hidden, take(), take()));
    }
    return crossEntropy(linear(norm(x, take(), take()), take(), take()), next);
  };
  return stepper(sizesOf(model), lossOf, data);
}

await serve({
  about: `jax-js, ${device === 'wasm' ? 'WebAssembly' : 'WebGPU'}`,
  matmul: (size, together) => {
    const [a, b] = [1, 2].map((seed) => arrayOf({ shape: [size, size], deviation: 1 }, seed));
    return async () => {
      const products = Array.from({ length: together }, () => np.matmul(a.ref, b.ref));
      await blockUntilReady(products);
      for (const product of products) product.dispose();
    };
  },
  train: (model) => (model.kind === 'mlp' ? mlp(model) : gpt(model)),
});
