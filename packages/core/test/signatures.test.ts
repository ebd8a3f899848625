import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it, test, vi } from 'vitest';
import { Linear } from '../src/nn/layers/linear.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { Tanh } from '../src/nn/layers/activations.ts';
import { Adam } from '../src/optim/adam.ts';
import { manualSeed } from '../src/random/keys.ts';
import { PLAN_LIMIT } from '../src/realize/cache/plan-cache.ts';
import { structureKey } from '../src/realize/cache/plan-difference.ts';
import { setRank } from '../src/rank.ts';
import type { Backend } from '../src/spec/backend.ts';
import type { Op, OpParams } from '../src/spec/op.ts';
import { fromData, full, ones, tensor } from '../src/tensor/create.ts';
import { statistics } from '../src/timeline.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

const numbers = [0, -0, 1, -1, 0.1, 1e-45, Infinity, -Infinity, NaN];
const none: readonly [Record<never, never>] = [{}];
const dims = [[], [0], [1], [0, 1], [10], [1, 0]];
const axis = { axis: 'dp', size: 2, rank: 0 };
const axes = [axis, { ...axis, axis: 'tp' }, { ...axis, size: 4 }, { ...axis, rank: 1 }];
const window = { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1 } as const;
const windows = [
  window,
  { ...window, stride: [1, 2] },
  { ...window, padding: [1, 0] },
  { ...window, dilation: [2, 1] },
  { ...window, groups: 2 },
] as const;
const shapes = [[], [1], [2, 3], [3, 2], [23]];
const rates = [1e-5, 1e-6, 0].map((eps) => ({ eps }));
const directions = [0, 1].map((dim) => ({ dim }));
const attentions = [
  { causal: true, hasKeyRanges: false, scale: 0.5, rounding: 'none' },
  { causal: false, hasKeyRanges: false, scale: 0.5, rounding: 'none' },
  { causal: true, hasKeyRanges: false, scale: 0.25, rounding: 'none' },
  { causal: true, hasKeyRanges: false, scale: 0.5, rounding: 'bf16' },
  { causal: true, hasKeyRanges: false, scale: 0.5, rounding: 'f16' },
] as const;
const approximations = [{ approximate: 'none' }, { approximate: 'tanh' }] as const;

/** For every op, parameters that all lead to different computations. */
const variants: { readonly [K in Op]: readonly OpParams[K][] } = {
  constant: [
    ...numbers.map((value) => ({ value, shape: [2], dtype: 'f32' as const })),
    ...shapes.map((shape) => ({ value: 7, shape, dtype: 'f32' as const })),
    { value: 7, shape: [1], dtype: 'i32' },
    { value: 7, shape: [1], dtype: 'bool' },
  ],
  iota: [
    { dim: 0, shape: [2, 3] },
    { dim: 1, shape: [2, 3] },
    { dim: 0, shape: [3, 2] },
  ],
  random: shapes.map((shape) => ({ shape })),
  neg: none,
  abs: none,
  sign: none,
  exp: none,
  log: none,
  sqrt: none,
  sin: none,
  cos: none,
  atan: none,
  tanh: none,
  erf: none,
  floor: none,
  ceil: none,
  logicalNot: none,
  cast: [{ dtype: 'f32' }, { dtype: 'i32' }, { dtype: 'bool' }, { dtype: 'bf16' }],
  add: none,
  sub: none,
  mul: none,
  div: none,
  pow: none,
  maximum: none,
  minimum: none,
  fmod: none,
  equal: none,
  less: none,
  lessEqual: none,
  logicalAnd: none,
  logicalOr: none,
  where: none,
  sum: dims.map((list) => ({ dims: list })),
  max: dims.map((list) => ({ dims: list })),
  argMax: directions,
  argSort: [
    { dim: 0, descending: false },
    { dim: 1, descending: false },
    { dim: 0, descending: true },
  ],
  cumsum: [
    { dim: 0, reverse: false },
    { dim: 1, reverse: false },
    { dim: 0, reverse: true },
  ],
  reshape: shapes.map((shape) => ({ shape })),
  permute: dims.map((order) => ({ order })),
  expand: shapes.map((shape) => ({ shape })),
  slice: [
    { starts: [0], stops: [3], steps: [1] },
    { starts: [1], stops: [3], steps: [1] },
    { starts: [0], stops: [2], steps: [1] },
    { starts: [0], stops: [3], steps: [2] },
  ],
  pad: [
    ...numbers.map((value) => ({ before: [1], after: [0], value })),
    { before: [0], after: [1], value: 7 },
    { before: [1], after: [1], value: 7 },
  ],
  concat: directions,
  matmul: [false, true].flatMap((transposeA) =>
    [false, true].map((transposeB) => ({ transposeA, transposeB })),
  ),
  conv2d: windows,
  conv2dInput: [
    ...windows.map((each) => ({ ...each, inputShape: [1, 2, 3, 4] })),
    { ...window, inputShape: [1, 2, 4, 3] },
  ],
  conv2dWeight: [
    ...windows.map((each) => ({ ...each, weightShape: [1, 2, 3, 4] })),
    { ...window, weightShape: [1, 2, 4, 3] },
  ],
  gather: directions,
  scatterAdd: directions,
  scatter: directions,
  indexSelect: directions,
  indexAdd: directions,
  sigmoid: none,
  relu: none,
  silu: none,
  softplus: none,
  gelu: approximations,
  geluGrad: approximations,
  softmax: none,
  softmaxGrad: none,
  logSoftmax: none,
  logSoftmaxGrad: none,
  layerNorm: rates,
  layerNormInputGrad: rates,
  layerNormWeightGrad: rates,
  rmsNorm: rates,
  rmsNormInputGrad: rates,
  rmsNormWeightGrad: rates,
  groupedMatmul: [{ transposeB: false }, { transposeB: true }],
  groupedMatmulWeight: none,
  attention: attentions,
  attentionLogSumExp: attentions,
  attentionQueryGrad: attentions,
  attentionKeyGrad: attentions,
  attentionValueGrad: attentions,
  allReduce: [
    ...axes.map(
      (each) => ({ ...each, reduce: 'sum', to: 'replicate', bucket: -1, pass: 0 }) as const,
    ),
    { ...axis, reduce: 'avg', to: 'replicate', bucket: -1, pass: 0 },
    { ...axis, reduce: 'sum', to: 'invariant', bucket: -1, pass: 0 },
    { ...axis, reduce: 'sum', to: 'replicate', bucket: 0, pass: 0 },
    { ...axis, reduce: 'sum', to: 'replicate', bucket: -1, pass: 1 },
  ],
  allGather: [
    ...axes.map((each) => ({ ...each, dim: 0, to: 'replicate' }) as const),
    { ...axis, dim: 1, to: 'replicate' },
    { ...axis, dim: 0, to: 'invariant' },
  ],
  reduceScatter: [
    ...axes.map((each) => ({ ...each, dim: 0, reduce: 'sum', pass: 0 }) as const),
    { ...axis, dim: 1, reduce: 'sum', pass: 0 },
    { ...axis, dim: 0, reduce: 'avg', pass: 0 },
  ],
  allToAllRows: axes.flatMap((each) => shapes.map((shape) => ({ ...each, shape }))),
  allToAll: [
    ...axes.map((each) => ({ ...each, splitDim: 0, concatDim: 1 })),
    { ...axis, splitDim: 1, concatDim: 1 },
    { ...axis, splitDim: 0, concatDim: 0 },
  ],
  broadcast: [...axes.map((each) => ({ ...each, root: 0 })), { ...axis, root: 1 }],
  reduce: [...axes.map((each) => ({ ...each, root: 0 })), { ...axis, root: 1 }],
  sendRecv: [
    ...axes.map((each) => ({ ...each, destination: [1, 0] })),
    { ...axis, destination: [-1, 0] },
    { ...axis, destination: [1, -1] },
  ],
  localChunk: [...axes.map((each) => ({ ...each, dim: 0 })), { ...axis, dim: 1 }],
  reinterpret: [
    ...axes.map((each) => ({ ...each, from: 'invariant', to: 'replicate' }) as const),
    { ...axis, from: 'varying', to: 'partial' },
    { ...axis, from: 'replicate', to: 'varying' },
  ],
  pageOut: [
    { store: 0, name: null },
    { store: 1, name: null },
    { store: 0, name: 'null' },
    { store: 0, name: 'a' },
  ],
  pageIn: none,
  refresh: [
    { source: 0, name: 'a', bucket: 0 },
    { source: 1, name: 'a', bucket: 0 },
    { source: 0, name: 'b', bucket: 0 },
    { source: 0, name: 'a', bucket: 1 },
  ],
  input: none,
  distributed: none,
  detach: none,
  takeRows: none,
  fillRows: [{ rows: 3 }, { rows: 4 }],
  ownGradient: none,
  assign: none,
};

describe('structures', () => {
  test.each(Object.entries(variants))('of %s differ with each of its parameters', (_, list) => {
    expect(new Set(list.map(structureKey)).size).toBe(list.length);
    // Equal parameters have one structure, even if they are different objects.
    expect(list.map((params) => structureKey({ ...params }))).toEqual(list.map(structureKey));
  });
});

const devices: Readonly<Record<string, () => Backend | Promise<Backend>>> = {
  interpreter: () => interpreter(),
  cpu: () => cpu(),
};

describe.each(Object.entries(devices))('numbers of a program on the %s', (_, device) => {
  test('are those that were written, in each run', async () => {
    setRank({ device: await device() });
    for (const value of [...numbers, ...numbers.toReversed()]) {
      const x = fromData(Float32Array.of(1, 1), [2], 'f32');
      const expected = Math.fround(value);
      expect([...(await x.mul(value).data())]).toEqual([expected, expected]);
      expect([...(await tensor([3]).div(value).data())]).toEqual([Math.fround(3 / expected)]);
      expect([...(await x.pad([1], [0], value).data())]).toEqual([expected, 1, 1]);
    }
  });

  test('that change become inputs: of every dtype, several at once', async () => {
    setRank({ device: await device() });
    const { plansMade } = statistics();
    for (let step = 0; step < 6; step++) {
      const y = tensor([1, 2])
        .mul(step / 2)
        .add(tensor([1, 2], 'i32').mul(step).to('f32'))
        .add(full([2], step % 2, 'bool').to('f32'))
        .add(full([2], step / 4, 'bf16').to('f32'));
      const expected = [1, 2].map((x) => (x * step) / 2 + x * step + (step % 2) + step / 4);
      expect([...(await y.data())]).toEqual(expected);
    }
    // There is a plan for the first step, one for the numbers that differ in the second step, and one for numbers that
    // happened to be equal in these two.
    expect(statistics().plansMade - plansMade).toBeLessThanOrEqual(3);
  });
});

describe('a training loop', () => {
  it('whose loss has another factor in each step makes two plans', async () => {
    setRank({ device: await cpu() });
    const model = new Sequential(new Linear(4, 8), new Tanh(), new Linear(8, 1));
    const optimizer = new Adam(model.parameters());
    const before = statistics();
    for (let step = 0; step < 30; step++) {
      optimizer.zeroGrad();
      const loss = model
        .forward(ones([2, 4]))
        .square()
        .mean();
      loss.mul(1 + step / 1e4).backward();
      await optimizer.step();
    }
    const { plansMade, plansDropped, programsCompiled, programsDisposed } = statistics();
    expect(plansMade - before.plansMade).toBe(2);
    expect(plansDropped - before.plansDropped).toBe(1);
    expect(programsDisposed - before.programsDisposed).toBe(1);
    expect(programsCompiled - before.programsCompiled).toBe(2);
  });

  it('whose shapes never repeat keeps a bounded number of plans where the device needs one for each', async () => {
    let alive = 0;
    const device = interpreter({ sized: false });
    const compile = device.compile.bind(device);
    device.compile = async (program) => {
      const executable = await compile(program);
      alive++;
      return {
        run: (...call) => executable.run(...call),
        dispose: () => {
          alive--;
          executable.dispose();
        },
      };
    };
    setRank({ device });
    const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});
    const before = statistics();
    for (let length = 1; length <= PLAN_LIMIT + 50; length++) await ones([length]).mul(2).data();
    const { plansMade, plansDropped } = statistics();
    expect(plansMade - before.plansMade).toBe(PLAN_LIMIT + 50);
    expect(plansDropped - before.plansDropped).toBe(50);
    expect(alive).toBe(PLAN_LIMIT);
    // The latest plans have not been dropped.
    await ones([PLAN_LIMIT]).mul(2).data();
    expect(statistics().plansMade).toBe(plansMade);
    expect(warn).toHaveBeenCalledOnce();
    warn.mockRestore();
  });
});
