import { checkGradients, describeDifference, interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { AvgPool2d, MaxPool2d } from '../src/nn/pooling/pool2d.ts';
import { BatchNorm2d } from '../src/nn/norm/batch-norm-layers.ts';
import { Conv2d } from '../src/nn/convolution/conv2d.ts';
import { Dropout } from '../src/nn/layers/dropout.ts';
import { Embedding } from '../src/nn/layers/embedding.ts';
import { Flatten } from '../src/nn/layers/flatten.ts';
import {
  ELU,
  GELU,
  LeakyReLU,
  LogSoftmax,
  Mish,
  ReLU,
  Sigmoid,
  SiLU,
  Softmax,
  Softplus,
  Tanh,
} from '../src/nn/layers/activations.ts';
import { LayerNorm } from '../src/nn/norm/layer-norm.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { MultiheadAttention } from '../src/nn/attention/multihead-attention.ts';
import { RMSNorm } from '../src/nn/norm/rms-norm.ts';
import { Sequential, type Layer } from '../src/nn/containers/sequential.ts';
import {
  defaultGenerator,
  manualSeed,
  nextKey,
  randomState,
  setRandomState,
} from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { elementCount } from '../src/base/shape.ts';
import type { Shape } from '../src/spec/dtype.ts';
import { ConfigError, ShapeError } from '../src/spec/errors.ts';
import { fromData, ones, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

async function values(x: Tensor | null): Promise<number[]> {
  return x === null ? [] : Array.from(await x.data(), Number);
}

function random(shape: Shape): Tensor {
  return fromData(defaultGenerator().randn(elementCount(shape)), shape, 'f32');
}

async function expectClose(
  actual: Tensor | null,
  expected: readonly number[],
  atol = 1e-5,
): Promise<void> {
  expect(describeDifference(await values(actual), expected, { atol })).toBeUndefined();
}

describe('the gradient of a layer is that of finite differences', () => {
  const layers: readonly [string, Shape, () => Layer][] = [
    ['Linear', [2, 3, 4], () => new Linear(4, 2)],
    ['LayerNorm', [2, 3, 4], () => new LayerNorm(4)],
    ['RMSNorm', [2, 4], () => new RMSNorm(4)],
    ['Conv2d', [1, 2, 4, 4], () => new Conv2d(2, 2, 3, { padding: 1, stride: 2, groups: 2 })],
    ['MaxPool2d', [1, 2, 4, 4], () => new MaxPool2d(2)],
    ['AvgPool2d', [1, 2, 4, 4], () => new AvgPool2d(3, { stride: 2, padding: 1 })],
    ['BatchNorm2d', [2, 2, 2, 2], () => new BatchNorm2d(2)],
    ['MultiheadAttention', [2, 3, 4], () => new MultiheadAttention(4, 2)],
    ['grouped-query attention', [1, 3, 8], () => new MultiheadAttention(8, 4, { keyHeads: 2 })],
  ];
  test.each(layers)('%s', async (_, shape, make) => {
    const layer = make();
    const x = random(shape).requiresGrad_();
    const weights = random(layer.forward(x).shape);
    const loss = (input: Tensor): Tensor => layer.forward(input).mul(weights).sum();
    const leaves = [x, ...layer.parameters()];
    loss(x).backward();
    const gradients: number[][] = [];
    for (const leaf of leaves) gradients.push(await values(leaf.grad));
    const data = await Promise.all(
      leaves.map(async (leaf) => Float32Array.from(await values(leaf))),
    );
    await checkGradients(
      async ([input, ...parameters]) => {
        for (const [index, parameter] of layer.parameters().entries()) {
          parameter.assign(
            fromData(parameters[index] ?? new Float32Array(0), parameter.shape, 'f32'),
          );
        }
        return loss(fromData(input ?? new Float32Array(0), shape, 'f32')).item();
      },
      data,
      gradients,
      { rtol: 1e-2, atol: 1e-2, elementwiseLimit: 0 },
    );
  });
});

describe('Linear', () => {
  test('is x Wᵀ + b over any leading dims', async () => {
    const layer = new Linear(2, 1);
    layer.weight.assign(tensor([[2, 3]]));
    layer.bias?.assign(tensor([10]));
    const y = layer.forward(tensor([[[1, 0]], [[0, 1]], [[1, 1]]]));
    expect(y.shape).toEqual([3, 1, 1]);
    expect(await values(y)).toEqual([12, 13, 15]);
  });

  test('takes a vector', async () => {
    expect(new Linear(2, 3).forward(tensor([1, 2])).shape).toEqual([3]);
  });
});

describe('Embedding', () => {
  test('gives rows, and its padding row starts at zero and gets no gradient', async () => {
    const layer = new Embedding(3, 2, { paddingIdx: 1 });
    const y = layer.forward(
      tensor(
        [
          [1, 2],
          [2, 0],
        ],
        'i32',
      ),
    );
    expect(y.shape).toEqual([2, 2, 2]);
    y.sum().backward();
    expect((await values(layer.weight)).slice(2, 4)).toEqual([0, 0]);
    expect(await values(layer.weight.grad)).toEqual([1, 1, 0, 0, 2, 2]);
  });
});

describe('norms', () => {
  test('LayerNorm gives rows of mean 0 and variance 1', async () => {
    await expectClose(
      new LayerNorm(2, { eps: 0 }).forward(
        tensor([
          [1, 3],
          [10, -10],
        ]),
      ),
      [-1, 1, 1, -1],
    );
  });

  test('RMSNorm gives rows of mean square 1', async () => {
    const root = Math.sqrt(12.5);
    await expectClose(new RMSNorm(2).forward(tensor([[3, 4]])), [3 / root, 4 / root]);
  });

  test('BatchNorm2d uses the batch in training, and moves the running statistics', async () => {
    const layer = new BatchNorm2d(1, { eps: 0 });
    const x = fromData(Float32Array.of(1, 3, 1, 3), [2, 1, 1, 2], 'f32');
    await expectClose(layer.forward(x), [-1, 1, -1, 1]);
    await expectClose(layer.runningMean, [0.2]);
    await expectClose(layer.runningVar, [0.9 + 0.1 * (4 / 3)]);
    expect(await values(layer.numBatchesTracked)).toEqual([1]);
  });

  test('BatchNorm2d keeps f32 statistics of inputs of 16 bits, and rounds its result once', async () => {
    const [wide, low] = [new BatchNorm2d(2), new BatchNorm2d(2)];
    const x = fromData(
      Float32Array.from({ length: 16 }, (_, i) => Math.sin(i)),
      [2, 2, 2, 2],
      'f32',
    ).to('bf16');
    const expected = wide.forward(x.to('f32')).to('bf16');
    const found = low.forward(x);
    expect(found.dtype).toBe('bf16');
    expect(await found.data()).toEqual(await expected.data());
    expect(await low.runningVar.data()).toEqual(await wide.runningVar.data());
  });

  test('BatchNorm2d uses the running statistics in evaluation, and leaves them', async () => {
    const layer = new BatchNorm2d(1, { eps: 0 });
    layer.runningMean.assign(tensor([1]));
    layer.runningVar.assign(tensor([4]));
    layer.eval();
    await expectClose(layer.forward(tensor([[[[1, 5]]]])), [0, 2]);
    expect(await values(layer.numBatchesTracked)).toEqual([0]);
  });
});

describe('activations', () => {
  const erf1 = 0.8427007929497149;
  test.each<[string, Layer, number, number]>([
    ['ReLU', new ReLU(), -1, 0],
    ['ReLU', new ReLU(), 2, 2],
    ['GELU', new GELU(), Math.SQRT2, (Math.SQRT2 / 2) * (1 + erf1)],
    [
      'GELU with tanh',
      new GELU('tanh'),
      1,
      0.5 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * 1.044715)),
    ],
    ['SiLU', new SiLU(), 1, 1 / (1 + Math.exp(-1))],
    ['Tanh', new Tanh(), 0.5, Math.tanh(0.5)],
    ['Sigmoid', new Sigmoid(), -2, 1 / (1 + Math.exp(2))],
    ['LeakyReLU', new LeakyReLU(0.2), -2, -0.4],
    ['ELU', new ELU(2), -1, 2 * (Math.exp(-1) - 1)],
    ['Softplus', new Softplus(), 1, Math.log1p(Math.E)],
    ['Mish', new Mish(), 1, Math.tanh(Math.log1p(Math.E))],
    ['Softmax', new Softmax(), 3, 1],
    ['LogSoftmax', new LogSoftmax(0), 3, 0],
  ])('%s', async (_, layer, x, y) => {
    await expectClose(layer.forward(tensor([x])), [y]);
  });
});

describe('windows', () => {
  const image = fromData(
    Float32Array.from({ length: 16 }, (_, i) => i),
    [1, 1, 4, 4],
    'f32',
  );

  test('Conv2d sums a window and adds the bias', async () => {
    const layer = new Conv2d(1, 1, 2, { stride: 2 });
    layer.weight.assign(ones([1, 1, 2, 2]));
    layer.bias?.assign(tensor([100]));
    expect(await values(layer.forward(image))).toEqual([110, 118, 142, 150]);
  });

  test('Conv2d with groups convolves each part of the channels by itself', async () => {
    const layer = new Conv2d(2, 2, 1, { groups: 2, bias: false });
    expect(layer.weight.shape).toEqual([2, 1, 1, 1]);
    layer.weight.assign(tensor([[[[2]]], [[[3]]]]));
    expect(await values(layer.forward(tensor([[[[1]], [[10]]]])))).toEqual([2, 30]);
  });

  test('MaxPool2d takes the maximum, with a stride of the kernel', async () => {
    expect(await values(new MaxPool2d(2).forward(image))).toEqual([5, 7, 13, 15]);
  });

  test('MaxPool2d gives the gradient to the first of equal maxima', async () => {
    const x = ones([1, 1, 2, 2]).mul(1);
    const leaf = fromData(Float32Array.from(await values(x)), x.shape, 'f32').requiresGrad_();
    new MaxPool2d(2).forward(leaf).sum().backward();
    expect(await values(leaf.grad)).toEqual([1, 0, 0, 0]);
  });

  test('MaxPool2d never chooses padding', async () => {
    const layer = new MaxPool2d(2, { padding: 1 });
    expect(
      await values(
        layer.forward(
          tensor([
            [
              [
                [-5, -6],
                [-7, -8],
              ],
            ],
          ]),
        ),
      ),
    ).toEqual([-5, -6, -7, -8]);
  });

  test('MaxPool2d with dilation skips elements', async () => {
    const layer = new MaxPool2d(2, { dilation: 2, stride: 1 });
    expect(await values(layer.forward(image))).toEqual([10, 11, 14, 15]);
  });

  test('AvgPool2d counts padding as zeros', async () => {
    expect(await values(new AvgPool2d(2).forward(image))).toEqual([2.5, 4.5, 10.5, 12.5]);
    await expectClose(
      new AvgPool2d(2, { padding: 1 }).forward(
        tensor([
          [
            [
              [4, 8],
              [12, 16],
            ],
          ],
        ]),
      ),
      [1, 2, 3, 4],
    );
  });

  test('padding of more than half the kernel is refused', () => {
    expect(() => new MaxPool2d(2, { padding: 2 }).forward(image)).toThrow(ShapeError);
    expect(() => new AvgPool2d(0).forward(image)).toThrow(ConfigError);
  });

  test('Flatten keeps the batch', () => {
    expect(new Flatten().forward(ones([2, 3, 4])).shape).toEqual([2, 12]);
  });
});

describe('Dropout', () => {
  test('zeroes about its share and keeps the mean, in another place each time', async () => {
    const layer = new Dropout(0.25);
    const x = ones([4000]);
    const [a, b] = [await values(layer.forward(x)), await values(layer.forward(x))];
    const zeros = a.filter((value) => value === 0).length;
    expect(zeros).toBeGreaterThan(900);
    expect(zeros).toBeLessThan(1100);
    expect(new Set(a)).toEqual(new Set([0, Math.fround(4 / 3)]));
    expect(a).not.toEqual(b);
  });

  test('gives the gradient to what it kept', async () => {
    const x = ones([100]);
    const leaf = fromData(Float32Array.from(await values(x)), [100], 'f32').requiresGrad_();
    const y = new Dropout(0.5).forward(leaf);
    y.sum().backward();
    expect(await values(leaf.grad)).toEqual(await values(y));
  });

  test('does nothing in evaluation, and everything at probability 1', async () => {
    expect(await values(new Dropout(0.5).eval().forward(tensor([1, 2])))).toEqual([1, 2]);
    expect(await values(new Dropout(1).forward(tensor([1, 2])))).toEqual([0, 0]);
    expect(() => new Dropout(1.5)).toThrow(ConfigError);
  });
});

describe('keys', () => {
  test('never repeat, and start over with the seed', async () => {
    const keys = async (count: number): Promise<number[][]> => {
      const list: number[][] = [];
      for (let i = 0; i < count; i++) list.push(await values(nextKey()));
      return list;
    };
    manualSeed(5);
    const first = await keys(3);
    expect(first).toEqual([
      [5, 0],
      [5, 1],
      [5, 2],
    ]);
    manualSeed(5);
    expect(await keys(3)).toEqual(first);
  });

  test('and the generator continue from a state that went through JSON', async () => {
    manualSeed(-3);
    nextKey();
    const state: unknown = JSON.parse(JSON.stringify(randomState()));
    const expected = [...defaultGenerator().rand(3), ...(await values(nextKey()))];
    manualSeed(1);
    setRandomState(state);
    expect([...defaultGenerator().rand(3), ...(await values(nextKey()))]).toEqual(expected);
    expect(() => setRandomState({ seed: 0.5 })).toThrow(ConfigError);
  });
});

describe('MultiheadAttention', () => {
  test('of one query over equal keys is the mean of the values', async () => {
    const layer = new MultiheadAttention(2, 1, { bias: false });
    layer.inProjWeight.assign(
      tensor([
        [0, 0],
        [0, 0],
        [0, 0],
        [0, 0],
        [1, 0],
        [0, 1],
      ]),
    );
    layer.outProj.weight.assign(
      tensor([
        [1, 0],
        [0, 1],
      ]),
    );
    await expectClose(
      layer.forward(
        tensor([
          [
            [1, 2],
            [3, 6],
          ],
        ]),
      ),
      [2, 4, 2, 4],
    );
    await expectClose(
      layer.forward(
        tensor([
          [
            [1, 2],
            [3, 6],
          ],
        ]),
        { causal: true },
      ),
      [1, 2, 2, 4],
    );
  });

  test('attends from one sequence to another as to itself where they are the same', async () => {
    const layer = new MultiheadAttention(8, 4, { keyHeads: 2 });
    const x = random([2, 3, 8]);
    await expectClose(layer.attend(x, x, x), await values(layer.forward(x)));
    expect(layer.attend(x, random([2, 5, 8]), random([2, 5, 8])).shape).toEqual([2, 3, 8]);
  });

  test("has PyTorch's names", async () => {
    expect(Object.keys(await new MultiheadAttention(4, 2).stateDict()).toSorted()).toEqual([
      'in_proj_bias',
      'in_proj_weight',
      'out_proj.bias',
      'out_proj.weight',
    ]);
  });

  test('refuses heads that do not divide', () => {
    expect(() => new MultiheadAttention(5, 2)).toThrow(ConfigError);
    expect(() => new MultiheadAttention(8, 4, { keyHeads: 3 })).toThrow(ConfigError);
  });
});

test('Sequential passes each layer what the one before gave', async () => {
  const model = new Sequential(new Flatten(), new ReLU());
  expect(await values(model.forward(tensor([[[-1, 2]], [[3, -4]]])))).toEqual([0, 2, 3, 0]);
});
