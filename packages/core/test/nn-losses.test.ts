import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import * as nn from '../src/nn.ts';
import * as functional from '../src/nn/functional.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError, DTypeError, ShapeError } from '../src/spec/errors.ts';
import { ones, tensor } from '../src/tensor/create.ts';
import { Tensor } from '../src/tensor/tensor.ts';
import { golden, givenTensor, weightedSum, worstDifference } from './golden/library.ts';

beforeEach(() => setRank({ device: interpreter() }));

type Loss = (...inputs: never[]) => Tensor;

const losses: Readonly<Record<string, Loss>> = {
  ...functional,
  ctcLoss: (
    logits: Tensor,
    targets: Tensor,
    inputs: number[],
    lengths: number[],
    options: functional.CtcLossOptions,
  ) => functional.ctcLoss(logits.logSoftmax(), targets, inputs, lengths, options),
};

describe('losses and their gradients are PyTorch’s', () => {
  test.each(golden.losses.map((each, i) => [i, each.loss, each] as const))(
    '%i: %s',
    async (_, name, { inputs, options, value, gradients }) => {
      const given = inputs.map((input) => (Array.isArray(input) ? input : givenTensor(input)));
      const leaves = given.filter((each) => each instanceof Tensor);
      leaves.forEach((leaf, i) => {
        if (gradients[i] !== null) leaf.requiresGrad_();
      });
      const settings = Object.fromEntries(
        Object.entries(options).map(([key, each]) => {
          if (typeof each === 'object') return [key, givenTensor(each)];
          return [key, each === 'Infinity' ? Infinity : each];
        }),
      );
      const loss = losses[name]?.(...([...given, settings] as never[]));
      if (loss === undefined) throw new RangeError(name);
      weightedSum([loss]).backward();
      expect(worstDifference(Array.from(await loss.data(), Number), value)).toBeLessThan(1);
      for (const [i, leaf] of leaves.entries()) {
        const expected = gradients[i];
        if (expected === null || expected === undefined) continue;
        const found = Array.from((await leaf.grad?.data()) ?? [], Number);
        expect(worstDifference(found, expected, { rtol: 3e-5 })).toBeLessThan(1);
      }
    },
  );
});

describe('losses refuse', () => {
  const rows = (): Tensor => ones([2, 3]);

  test('floats as classes, which are neither classes nor their probabilities', () => {
    expect(() => functional.crossEntropy(rows(), tensor([0, 1]))).toThrow(DTypeError);
  });

  test('an ignored class beside probabilities of classes', () => {
    const call = (): Tensor => functional.crossEntropy(rows(), rows(), { ignoreIndex: 0 });
    expect(call).toThrow('targets that are probabilities of classes, and no indices');
  });

  test('probabilities of several dims, of which any may be that of the classes', () => {
    const images = ones([2, 3, 4, 4]);
    expect(() => functional.crossEntropy(images, images)).toThrow('Pass dim: 1');
    expect(functional.crossEntropy(images, images, { dim: 1 }).shape).toEqual([]);
    const weight = ones([4]);
    expect(() => functional.crossEntropy(images, images, { dim: 1, weight })).toThrow(
      'weight of shape [4]: 4 classes (dim 0) instead of 3',
    );
    expect(() => functional.crossEntropy(images, images, { dim: 4 })).toThrow(ShapeError);
  });

  test('weights of another number of classes', () => {
    const targets = tensor([0, 1], 'i32');
    expect(() => functional.crossEntropy(rows(), targets, { weight: ones([2]) })).toThrow(
      'weight of shape [2]: 2 classes (dim 0) instead of 3',
    );
  });

  test('factors that would make more losses than there are', () => {
    const call = (): Tensor =>
      functional.binaryCrossEntropyWithLogits(rows(), rows(), { posWeight: ones([4, 1, 3]) });
    expect(call).toThrow('to which it does not broadcast');
  });

  test('targets of other shapes, which would broadcast', () => {
    const column = ones([2, 1]);
    const { huberLoss, smoothL1Loss, klDiv, sigmoidFocalLoss, tripletMarginLoss } = functional;
    for (const loss of [huberLoss, smoothL1Loss, klDiv, sigmoidFocalLoss]) {
      expect(() => loss(rows(), column)).toThrow(ShapeError);
    }
    expect(() => tripletMarginLoss(rows(), rows(), column)).toThrow(ShapeError);
    expect(() => functional.cosineEmbeddingLoss(rows(), rows(), column)).toThrow(ShapeError);
  });

  test('sequences of ctcLoss that are longer than there are steps or labels', () => {
    const labels = tensor([[1, 2]], 'i32');
    const call = (inputs: number[], lengths: number[], blank = 0): Tensor =>
      functional.ctcLoss(ones([4, 1, 3]), labels, inputs, lengths, { blank });
    expect(() => call([5], [2])).toThrow('a length of 5, of at most 4');
    expect(() => call([4], [3])).toThrow('a length of 3, of at most 2');
    expect(() => call([4, 4], [2])).toThrow('inputLengths of 2 sequences');
    expect(() => call([4], [2], 3)).toThrow(ConfigError);
  });
});

test('ctcLoss of a sequence that is too short for its labels is infinite, and has no gradient', async () => {
  const logits = ones([2, 1, 4]).mul(1).detach();
  const leaf = tensor([[[1, 2, 3, 4]], [[1, 2, 3, 4]]]).requiresGrad_();
  const labels = tensor([[1, 1]], 'i32');
  const loss = functional.ctcLoss(leaf.add(logits).logSoftmax(), labels, [2], [2]);
  loss.backward();
  expect(await loss.item()).toBe(Infinity);
  expect([...((await leaf.grad?.data()) ?? [])]).toEqual([0, 0, 0, 0, 0, 0, 0, 0]);
});

test('binaryCrossEntropy of small probabilities keeps their digits', async () => {
  const loss = functional.binaryCrossEntropy(tensor([1e-9]), tensor([0]));
  expect((await loss.item()) / 1e-9).toBeCloseTo(1, 5);
});

test('binaryCrossEntropy of 16 bits is bounded as that of f32', async () => {
  const probabilities = tensor([0, 1, 0.5]).to('f16');
  const targets = tensor([1, 0, 1]).to('f16');
  const loss = functional.binaryCrossEntropy(probabilities, targets, { reduction: 'sum' });
  expect(loss.dtype).toBe('f16');
  expect(await loss.item()).toBeCloseTo(200.7, 0);
});

test('binaryCrossEntropy of what is no probability is NaN, and not a number that looks right', async () => {
  const loss = functional.binaryCrossEntropy(tensor([1.5, -0.5]), tensor([1, 0]), {
    reduction: 'none',
  });
  expect([...(await loss.data())]).toEqual([NaN, NaN]);
});

test('weights of classes do not change the dtype of a loss', () => {
  const [logits, weight] = [ones([2, 3]).to('bf16'), ones([3])];
  for (const targets of [tensor([0, 1], 'i32'), logits]) {
    expect(functional.crossEntropy(logits, targets, { weight }).dtype).toBe('bf16');
  }
});

describe('losses are modules, too', () => {
  const rows = (): Tensor =>
    tensor([
      [0.1, 0.7, 0.2],
      [0.5, 0.1, 0.4],
    ]);
  const targets = (): Tensor =>
    tensor([
      [0.3, 0.4, 0.3],
      [0.1, 0.8, 0.1],
    ]);
  const labels = (): Tensor => tensor([1, 2], 'i32');
  const options = { reduction: 'none' } as const;

  test('with the values of their functions', async () => {
    const weight = tensor([1, 2, 3]);
    const signs = tensor([1, -1], 'i32');
    const steps = rows().logSoftmax().unsqueeze(1);
    const pairs: Readonly<Record<string, readonly [Tensor, Tensor]>> = {
      MSELoss: [
        new nn.MSELoss(options).forward(rows(), targets()),
        functional.mseLoss(rows(), targets(), options),
      ],
      L1Loss: [new nn.L1Loss().forward(rows(), targets()), functional.l1Loss(rows(), targets())],
      SmoothL1Loss: [
        new nn.SmoothL1Loss({ beta: 0.1 }).forward(rows(), targets()),
        functional.smoothL1Loss(rows(), targets(), { beta: 0.1 }),
      ],
      HuberLoss: [
        new nn.HuberLoss({ delta: 0.1 }).forward(rows(), targets()),
        functional.huberLoss(rows(), targets(), { delta: 0.1 }),
      ],
      KLDivLoss: [
        new nn.KLDivLoss({ reduction: 'batchMean' }).forward(rows(), targets()),
        functional.klDiv(rows(), targets(), { reduction: 'batchMean' }),
      ],
      CrossEntropyLoss: [
        new nn.CrossEntropyLoss({ weight, labelSmoothing: 0.1 }).forward(rows(), labels()),
        functional.crossEntropy(rows(), labels(), { weight, labelSmoothing: 0.1 }),
      ],
      NLLLoss: [
        new nn.NLLLoss({ weight }).forward(rows(), labels()),
        functional.nllLoss(rows(), labels(), { weight }),
      ],
      BCELoss: [
        new nn.BCELoss({ weight }).forward(rows(), targets()),
        functional.binaryCrossEntropy(rows(), targets(), { weight }),
      ],
      BCEWithLogitsLoss: [
        new nn.BCEWithLogitsLoss({ weight, posWeight: weight }).forward(rows(), targets()),
        functional.binaryCrossEntropyWithLogits(rows(), targets(), { weight, posWeight: weight }),
      ],
      CosineEmbeddingLoss: [
        new nn.CosineEmbeddingLoss({ margin: 0.2 }).forward(rows(), targets(), signs),
        functional.cosineEmbeddingLoss(rows(), targets(), signs, { margin: 0.2 }),
      ],
      TripletMarginLoss: [
        new nn.TripletMarginLoss({ p: 1 }).forward(rows(), targets(), ones([2, 3])),
        functional.tripletMarginLoss(rows(), targets(), ones([2, 3]), { p: 1 }),
      ],
      CTCLoss: [
        new nn.CTCLoss({ blank: 2 }).forward(steps, tensor([[1]], 'i32'), [2], [1]),
        functional.ctcLoss(steps, tensor([[1]], 'i32'), [2], [1], { blank: 2 }),
      ],
    };
    for (const [name, [found, expected]] of Object.entries(pairs)) {
      expect([name, ...(await found.data())]).toEqual([name, ...(await expected.data())]);
    }
  });

  test('whose weights stand in the state dict where they are buffers, under the names of PyTorch', async () => {
    const weight = (): nn.BufferTensor => new nn.BufferTensor(Float32Array.of(1, 2, 3), [3]);
    const names = async (loss: nn.Module): Promise<string[]> => Object.keys(await loss.stateDict());
    expect(await names(new nn.CrossEntropyLoss({ weight: weight() }))).toEqual(['weight']);
    const both = new nn.BCEWithLogitsLoss({ weight: weight(), posWeight: weight() });
    expect(await names(both)).toEqual(['weight', 'pos_weight']);
    expect(await names(new nn.CrossEntropyLoss({ weight: ones([3]) }))).toEqual([]);
    const printed = new nn.CrossEntropyLoss({ weight: weight(), labelSmoothing: 0.1 }).toString();
    expect(printed).toBe('CrossEntropyLoss(labelSmoothing=0.1, weight=[3])');
  });

  test('whose options are checked when they are made', () => {
    const misspelt = { reduction: 'mean', reduce: true } as const;
    const wrong = [
      (): unknown => new nn.MSELoss(misspelt),
      (): unknown => new nn.CrossEntropyLoss({ labelSmoothing: 2 }),
      (): unknown => new nn.CTCLoss({ blank: -1 }),
    ];
    for (const make of wrong) expect(make).toThrow(ConfigError);
  });
});
