import { arange, concat, nn, type Tensor } from '@shardwise/core';
import type { Draw } from './draw.ts';

const { functional } = nn;

/** A computation of random sizes, and its results. A gradient may be missing. */
type Computation = (draw: Draw) => readonly (Tensor | null)[];

/** The result, and the gradients of a random weighted sum of it. */
function withGradients(draw: Draw, y: Tensor, inputs: readonly Tensor[]): (Tensor | null)[] {
  y.mul(draw.numbers(y.shape)).sum().backward();
  return [y, ...inputs.map((x) => x.grad)];
}

function matmul(draw: Draw): readonly (Tensor | null)[] {
  const batch = draw.choose<readonly number[]>([
    [],
    [],
    [draw.size(5)],
    [draw.size(4), draw.size(3)],
  ]);
  const [M, K, N] = [draw.size(600), draw.size(draw.flip(0.2) ? 5000 : 600), draw.size(600)];
  const [transposeA, transposeB, shareB] = [draw.flip(), draw.flip(), draw.flip()];
  const a = draw.trained([...batch, ...(transposeA ? [K, M] : [M, K])]);
  const b = draw.trained([...(shareB ? [] : batch), ...(transposeB ? [N, K] : [K, N])]);
  const inputs = [a, b];
  let y = (transposeA ? a.mT : a).matmul(transposeB ? b.mT : b).mul(1 / Math.sqrt(K));
  if (draw.flip()) {
    const bias = draw.trained([N]);
    inputs.push(bias);
    y = y.add(bias);
  }
  if (draw.flip()) y = draw.flip() ? y.gelu() : y.relu();
  if (draw.flip()) {
    const residual = draw.trained(y.shape);
    inputs.push(residual);
    y = y.add(residual);
  }
  return withGradients(draw, y, inputs);
}

function matrixTimesVector(draw: Draw): readonly (Tensor | null)[] {
  const [K, N] = [draw.size(20_000), draw.size(300)];
  const [vector, right, left] = [draw.trained([K]), draw.trained([K, N]), draw.trained([N, K])];
  const y = vector.matmul(right).add(left.matmul(vector));
  return withGradients(draw, y.mul(1 / Math.sqrt(K)), [vector, right, left]);
}

function reductions(draw: Draw): readonly (Tensor | null)[] {
  const x = draw.trained([draw.size(40), draw.size(60), draw.size(draw.flip(0.3) ? 4000 : 60)]);
  const turned = x.permute(
    draw.choose([
      [0, 1, 2],
      [2, 0, 1],
      [1, 2, 0],
    ]),
  );
  const dims = draw.choose([[0], [1], [2], [0, 1], [1, 2], [0, 2], [0, 1, 2]]);
  const reduce = draw.choose([
    () => turned.sum(dims),
    () => turned.mean(dims),
    () => turned.max(dims),
    () => turned.variance(dims, { correction: 0 }),
    () => turned.logSumExp(dims),
    () => turned.norm(dims, { p: 2 }),
  ]);
  const [dim = 0] = dims;
  return [...withGradients(draw, reduce(), [x]), turned.argMax(dim), turned.argMin(dim)];
}

function rows(draw: Draw): readonly (Tensor | null)[] {
  const width = draw.size(draw.flip(0.4) ? 5000 : 100);
  const x = draw.trained([draw.size(30), draw.size(20), width], 3);
  const [weight, bias] = [draw.trained([width]), draw.trained([width])];
  const dim = draw.integer(0, 2);
  const { y, inputs } = draw.choose([
    () => ({ y: x.softmax(dim), inputs: [x] }),
    () => ({ y: x.logSoftmax(dim), inputs: [x] }),
    () => ({ y: x.layerNorm(weight, bias, 1e-5), inputs: [x, weight, bias] }),
    () => ({ y: x.rmsNorm(weight, 1e-5), inputs: [x, weight] }),
  ])();
  return withGradients(draw, y, inputs);
}

function convolution(draw: Draw): readonly (Tensor | null)[] {
  const groups = draw.choose([1, 1, 2, 3]);
  const [N, C, O] = [draw.size(4), groups * draw.size(8), groups * draw.size(8)];
  const [tall, wide, dilation] = [draw.integer(1, 4), draw.integer(1, 4), draw.integer(1, 2)];
  const [stride, padding] = [draw.integer(1, 3), draw.integer(0, 2)];
  const [H, W] = [tall, wide].map((size) => Math.max(draw.size(24), dilation * size));
  const x = draw.trained([N, C, H ?? 1, W ?? 1]);
  const [weight, bias] = [draw.trained([O, C / groups, tall, wide], 0.3), draw.trained([O])];
  const y = functional.conv2d(x, weight, bias, { stride, padding, dilation, groups });
  return withGradients(draw, y, [x, weight, bias]);
}

function pooling(draw: Draw): readonly (Tensor | null)[] {
  const [kernel, stride] = [draw.integer(1, 4), draw.integer(1, 4)];
  const padding = draw.integer(0, Math.floor(kernel / 2));
  const side = (): number => Math.max(kernel, draw.size(40));
  const x = draw.trained([draw.size(3), draw.size(6), side(), side()]);
  const pool = draw.flip() ? functional.maxPool2d : functional.avgPool2d;
  return withGradients(draw, pool(x, kernel, { stride, padding }), [x]);
}

function attention(draw: Draw): readonly (Tensor | null)[] {
  const [B, H, T, S] = [draw.size(3), draw.size(4), draw.size(200), draw.size(200)];
  const D = draw.choose([1, 4, 7, 8, 16, 24, 32, 40, 64, 80]);
  const causal = draw.flip(0.3);
  const keys = causal ? T : S;
  const query = draw.trained([B, H, T, D]);
  const [key, value] = [draw.trained([B, H, keys, D]), draw.trained([B, H, keys, D])];
  const [masked, isBoolean] = [draw.flip(), draw.flip()];
  const numbers = draw.numbers([T, keys]);
  // Every query may attend to the first key.
  const allowed = numbers.gt(-0.3).logicalOr(arange(keys).eq(0));
  const mask = isBoolean ? allowed : numbers;
  const options = causal ? { causal } : masked ? { mask } : {};
  const y = functional.scaledDotProductAttention(query, key, value, options);
  return withGradients(draw, y, [query, key, value]);
}

function indexing(draw: Draw): readonly (Tensor | null)[] {
  const [rowCount, width, count] = [draw.size(500), draw.size(200), draw.size(400)];
  const [table, other] = [draw.trained([rowCount, width]), draw.trained([rowCount, width])];
  const ids = draw.integers([count], rowCount);
  const y = other.indexAdd(0, ids, functional.embedding(ids, table));
  const places = draw.integers([rowCount, Math.min(width, 50)], width);
  return [
    ...withGradients(draw, y, [table, other]),
    table.gather(1, places),
    other.scatterAdd(1, places, draw.numbers(places.shape)),
  ];
}

function ordering(draw: Draw): readonly (Tensor | null)[] {
  const x = draw.trained([draw.size(20), draw.size(600), draw.size(8)]);
  const dim = draw.integer(0, 2);
  const sorted = x.sort(dim, { descending: draw.flip() });
  const largest = x.topK(draw.integer(1, Math.min(5, x.shape[dim] ?? 1)), { dim });
  const y = sorted.values.add(x.cumsum(dim).mul(0.01));
  return [...withGradients(draw, y, [x]), sorted.indices, largest.values, largest.indices];
}

function crossEntropy(draw: Draw): readonly (Tensor | null)[] {
  const [count, classes] = [draw.size(300), draw.size(3000)];
  const logits = draw.trained([count, classes], 4);
  const loss = functional.crossEntropy(logits, draw.integers([count], classes), {
    labelSmoothing: draw.choose([0, 0.1]),
    reduction: draw.choose(['mean', 'sum']),
  });
  loss.backward();
  return [loss, logits.grad];
}

function movement(draw: Draw): readonly (Tensor | null)[] {
  const shape = [draw.size(20), draw.size(40), draw.size(60)];
  const [x, z] = [draw.trained(shape), draw.trained(shape)];
  const dim = draw.integer(0, 2);
  const half = x.slice(dim, 0, Math.ceil((shape[dim] ?? 1) / 2), 1);
  const [before, after] = [0, 0].map(() => shape.map(() => draw.integer(0, 3)));
  const padded = concat([half, z, x.flip([dim])], dim).pad(before ?? [], after ?? [], 0.5);
  const turned = padded.permute(
    draw.choose([
      [0, 1, 2],
      [2, 1, 0],
      [1, 0, 2],
    ]),
  );
  const cut = turned.slice(1, 0, turned.shape[1] ?? 1, draw.integer(1, 3));
  return withGradients(draw, cut.square().sum([0], { keepDim: true }).add(cut), [x, z]);
}

/** Makes a value of two others, all of the same shape. */
type Step = (x: Tensor, y: Tensor, dim: number) => Tensor;

const steps: readonly [Step, ...Step[]] = [
  (x, y) => x.add(y),
  (x, y) => x.sub(y),
  (x, y) => x.mul(y),
  (x, y) => x.div(y.abs().add(0.5)),
  (x, y) => x.maximum(y),
  (x, y) => x.gt(y).where(x, y.mul(0.5)),
  (x) => x.relu(),
  (x) => x.gelu(),
  (x) => x.silu(),
  (x) => x.tanh(),
  (x) => x.sin(),
  (x) => x.erf(),
  (x) => x.sigmoid(),
  (x) => x.softplus(),
  (x) => x.square(),
  (x) => x.clamp(-3, 3).exp(),
  (x) => x.abs().add(0.1).sqrt(),
  (x) => x.abs().add(0.1).log(),
  (x) => x.abs().add(0.1).pow(1.7),
  (x) => x.to('f16').to('f32'),
  (x) => x.to('bf16').to('f32'),
  (x, _y, dim) => x.flip([dim]),
  (x, _y, dim) => x.roll([3], [dim]),
  (x, _y, dim) => x.sub(x.mean([dim], { keepDim: true })),
  (x, _y, dim) => x.sub(x.max([dim], { keepDim: true })),
  (x, _y, dim) => x.softmax(dim),
  (x, _y, dim) => x.cumsum(dim).mul(0.1),
];

function chain(draw: Draw): readonly (Tensor | null)[] {
  const [A, B, C] = [draw.size(30), draw.size(50), draw.size(70)];
  const shape = [A, B, C];
  const [x, row, column] = [draw.trained(shape), draw.trained([C]), draw.trained([A, B, 1])];
  const values: [Tensor, ...Tensor[]] = [x, row.expand(shape), column.expand(shape)];
  for (let left = draw.integer(3, 12); left > 0; left--) {
    const step = draw.choose(steps);
    values.push(step(draw.choose(values), draw.choose(values), draw.integer(0, 2)));
  }
  const [last = x, before = x] = values.toReversed();
  return withGradients(draw, last.add(before), [x, row, column]);
}

export const computations = {
  matmul,
  matrixTimesVector,
  reductions,
  rows,
  convolution,
  pooling,
  attention,
  indexing,
  ordering,
  crossEntropy,
  movement,
  chain,
} satisfies Record<string, Computation>;
