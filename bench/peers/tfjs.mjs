// TensorFlow.js on WebAssembly, one thread, or on WebGPU.
import { dirname } from 'node:path';
import { device, load, resolve, serve, sizesOf, valuesOf } from './serve.mjs';

const tf = await load('@tensorflow/tfjs');
if (device === 'wasm') {
  const { setThreadsCount, setWasmPaths } = await load('@tensorflow/tfjs-backend-wasm');
  setWasmPaths(`${dirname(resolve('@tensorflow/tfjs-backend-wasm'))}/`);
  setThreadsCount(1);
} else await load('@tensorflow/tfjs-backend-webgpu');
if (!(await tf.setBackend(device))) throw new Error(`TensorFlow.js has no device ${device} here`);
await tf.ready();

const variablesOf = (sizes) =>
  sizes.map((size, index) => tf.variable(tf.tensor(valuesOf(size, index), size.shape, 'float32')));

/** A step of Adam that returns the loss. */
const stepper = (parameters, lossOf) => {
  const optimizer = tf.train.adam(1e-3);
  return async () => {
    const loss = optimizer.minimize(lossOf, true, parameters);
    const [value] = await loss.data();
    loss.dispose();
    return value;
  };
};

const linear = (x, weight, bias) => tf.add(tf.matMul(x, weight), bias);
const crossEntropy = (logits, targets) =>
  tf.neg(tf.mean(tf.sum(tf.mul(targets, tf.logSoftmax(logits)), -1)));

function mlp({ widths, batch }) {
  const sizes = widths.slice(1).flatMap((to, index) => [
    { shape: [widths[index], to], deviation: 0.05 },
    { shape: [to], value: 0 },
  ]);
  const parameters = variablesOf(sizes);
  const [features] = widths;
  const classes = widths.at(-1);
  const x = tf.tensor(valuesOf({ shape: [batch, features], deviation: 1 }, 99), [batch, features]);
  const labels = Int32Array.from({ length: batch }, (_, row) => row % classes);
  const targets = tf.cast(tf.oneHot(tf.tensor(labels, [batch], 'int32'), classes), 'float32');
  return stepper(parameters, () => {
    let hidden = x;
    for (let layer = 0; layer < parameters.length; layer += 2) {
      hidden = linear(hidden, parameters[layer], parameters[layer + 1]);
      if (layer < parameters.length - 2) hidden = tf.relu(hidden);
    }
    return crossEntropy(hidden, targets);
  });
}

function gpt(model) {
  const { layers, channels, heads, context, vocabulary, batch, tokens } = model;
  const parameters = variablesOf(sizesOf(model));
  const rows = batch * context;
  const [ids, next] = [0, 1].map((offset) =>
    tf.cast(
      tf.oneHot(tf.tensor(Int32Array.from(tokens[offset]), [rows], 'int32'), vocabulary),
      'float32',
    ),
  );
  const width = channels / heads;
  const mask = tf.tensor(
    Float32Array.from({ length: context ** 2 }, (_, index) =>
      index % context > Math.floor(index / context) ? -1e9 : 0,
    ),
    [context, context],
  );
  const norm = (x, weight, bias) => {
    const centred = tf.sub(x, tf.mean(x, -1, true));
    const variance = tf.mean(tf.square(centred), -1, true);
    return tf.add(tf.mul(tf.mul(centred, tf.rsqrt(tf.add(variance, 1e-5))), weight), bias);
  };
  const gelu = (x) => tf.mul(tf.mul(x, 0.5), tf.add(1, tf.erf(tf.mul(x, Math.SQRT1_2))));
  return stepper(parameters, () => {
    let place = 0;
    const take = () => parameters[place++];
    // A product with the table: there is no gradient of gather on WebAssembly.
    const embedded = tf.reshape(tf.matMul(ids, take()), [batch, context, channels]);
    let x = tf.reshape(tf.add(embedded, take()), [rows, channels]);
    for (let layer = 0; layer < layers; layer++) {
      const qkv = linear(norm(x, take(), take()), take(), take());
      const split = tf.transpose(
        tf.reshape(qkv, [batch, context, 3, heads, width]),
        [2, 0, 3, 1, 4],
      );
      const [query, key, value] = tf.unstack(split, 0);
      const scores = tf.mul(tf.matMul(query, key, false, true), 1 / Math.sqrt(width));
      const attended = tf.matMul(tf.softmax(tf.add(scores, mask)), value);
      const together = tf.reshape(tf.transpose(attended, [0, 2, 1, 3]), [rows, channels]);
      x = tf.add(x, linear(together, take(), take()));
      const hidden = gelu(linear(norm(x, take(), take()), take(), take()));
      x = tf.add(x, linear(hidden, take(), take()));
    }
    return crossEntropy(linear(norm(x, take(), take()), take(), take()), next);
  });
}

await serve({
  about: `TensorFlow.js ${tf.version.tfjs}, ${device === 'wasm' ? 'WebAssembly, one thread' : 'WebGPU'}`,
  matmul: (size, together) => {
    const [a, b] = [1, 2].map((seed) =>
      tf.tensor(valuesOf({ shape: [size, size], deviation: 1 }, seed), [size, size]),
    );
    return async () => {
      const products = Array.from({ length: together }, () => tf.matMul(a, b));
      // On WebAssembly they are computed by now.
      if (device === 'webgpu') {
        tf.backend().endComputePassEncoder();
        tf.backend().submitQueue();
        await tf.backend().queue.onSubmittedWorkDone();
      }
      for (const product of products) product.dispose();
    };
  },
  train: (model) => (model.kind === 'mlp' ? mlp(model) : gpt(model)),
});
