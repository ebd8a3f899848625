import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { BatchNorm2d } from '../src/nn/norm/batch-norm-layers.ts';
import { Conv2d } from '../src/nn/convolution/conv2d.ts';
import { Dropout } from '../src/nn/layers/dropout.ts';
import { Embedding } from '../src/nn/layers/embedding.ts';
import { GELU } from '../src/nn/layers/activations.ts';
import { LayerNorm } from '../src/nn/norm/layer-norm.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { evaluating } from '../src/nn/module/evaluating.ts';
import { Module } from '../src/nn/module/module.ts';
import { ModuleList } from '../src/nn/containers/module-list.ts';
import { MultiheadAttention } from '../src/nn/attention/multihead-attention.ts';
import { BufferTensor, Parameter } from '../src/nn/parameter/parameter.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { Generator } from '../src/random/generator.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { CheckpointError, ConfigError, ShapeError } from '../src/spec/errors.ts';
import { tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

class Tied extends Module {
  tokens = new Embedding(3, 2);
  scale = new Parameter(Float32Array.of(1), [1]);
  blocks = new ModuleList([new Linear(2, 2), new Linear(2, 2, { bias: false })]);
  head = new Linear(2, 3, { bias: false });
  counter = new BufferTensor(Int32Array.of(0), [], { dtype: 'i32' });
  cache = new BufferTensor(Float32Array.of(0), [1], { persistent: false });

  constructor() {
    super();
    this.head.weight = this.tokens.weight;
  }
}

const names = (named: readonly (readonly [string, unknown])[]): string[] =>
  named.map(([name]) => name);

async function values(x: Tensor): Promise<number[]> {
  return Array.from(await x.data(), Number);
}

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

describe('members', () => {
  test('are named as in PyTorch: own parameters first, then those of the children, shared ones once', () => {
    expect(names(new Tied().namedParameters())).toEqual([
      'scale',
      'tokens.weight',
      'blocks.0.weight',
      'blocks.0.bias',
      'blocks.1.weight',
    ]);
  });

  test('that are buffers have a list of their own', () => {
    expect(names(new Tied().namedBuffers())).toEqual(['counter', 'cache']);
  });

  test('that are modules are listed parents first, shared ones once', () => {
    const shared = new Linear(1, 1);
    const model = new Sequential(shared, new Sequential(shared, new GELU()));
    expect(names(model.namedModules())).toEqual(['', '0', '1', '1.1']);
    expect(model.children).toHaveLength(2);
  });

  test('in a plain array are refused, as they would not be found', () => {
    class Wrong extends Module {
      layers = [new Linear(1, 1)];
    }
    expect(() => new Wrong().parameters()).toThrow(ConfigError);
    expect(() => new Wrong().parameters()).toThrow("the field 'layers'");
  });

  test('of a parameter and its data must fit', () => {
    expect(() => new Parameter(Float32Array.of(1, 2), [3])).toThrow(ShapeError);
  });

  test('can be replaced everywhere they stand', () => {
    const model = new Tied();
    const replacement = new Parameter(new Float32Array(6), [3, 2]);
    model.replaceParameters(new Map([[model.tokens.weight, replacement]]));
    expect(model.head.weight).toBe(replacement);
    expect(model.tokens.weight).toBe(replacement);
  });

  test('are replaced in one walk, however many there are', () => {
    const visits = (count: number): number => {
      let seen = 0;
      class Counted extends Sequential {
        override namedChildren() {
          seen++;
          return super.namedChildren();
        }
      }
      const model = new Counted(...Array.from({ length: count }, () => new Linear(1, 1)));
      seen = 0;
      const zeros = ({ shape, numel }: Parameter) => new Parameter(new Float32Array(numel), shape);
      model.replaceParameters(new Map(model.parameters().map((old) => [old, zeros(old)])));
      return seen;
    };
    expect(visits(30)).toBe(visits(1));
  });
});

describe('modes and visits', () => {
  test('train and eval reach every module', () => {
    const model = new Sequential(new Linear(1, 1), new Sequential(new Dropout(0.1)));
    expect(model.training).toBe(true);
    model.eval();
    expect(model.namedModules().map(([, module]) => module.training)).toEqual([
      false,
      false,
      false,
      false,
    ]);
    model.train();
    expect(model.namedModules().every(([, module]) => module.training)).toBe(true);
  });

  test('in a body that is evaluated, modules do not behave as in training, and keep their modes', () => {
    const model = new Sequential(new Linear(1, 1), new Sequential(new Dropout(0.1).eval()));
    const modes = (): boolean[] => model.namedModules().map(([, { training }]) => training);
    const before = modes();
    expect(evaluating(modes)).toEqual([false, false, false, false]);
    expect(() =>
      evaluating(() => {
        throw new Error('broken');
      }),
    ).toThrow('broken');
    expect(modes()).toEqual(before);
    expect(before).toEqual([true, true, true, false]);
  });

  test('apply visits children before parents', () => {
    const visited: string[] = [];
    new Sequential(new GELU(), new Sequential(new Dropout())).apply((module) =>
      visited.push(module.constructor.name),
    );
    expect(visited).toEqual(['GELU', 'Dropout', 'Sequential', 'Sequential']);
  });

  test('zeroGrad clears every gradient', () => {
    const model = new Linear(2, 1);
    model
      .forward(tensor([[1, 2]]))
      .sum()
      .backward();
    expect(model.weight.grad).not.toBeNull();
    model.zeroGrad();
    expect(model.parameters().map(({ grad }) => grad)).toEqual([null, null]);
  });

  test('requiresGrad_ freezes', () => {
    const model = new Sequential(new Linear(2, 2), new Linear(2, 1));
    model.at(0)?.requiresGrad_(false);
    model
      .forward(tensor([[1, 2]]))
      .sum()
      .backward();
    expect(model.namedParameters().map(([, { grad }]) => grad === null)).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });
});

describe('a shared parameter', () => {
  test('collects the gradients of all its uses', async () => {
    const model = new Tied();
    const x = model.tokens.forward(tensor([1], 'i32'));
    model.head.forward(x).sum().backward();
    const weight = await values(model.tokens.weight);
    const columnSums = [0, 1].map((c) =>
      [0, 1, 2].reduce((sum, r) => sum + (weight[r * 2 + c] ?? 0), 0),
    );
    const gradient = (await values(model.tokens.weight.grad ?? tensor([]))).map((g) =>
      g.toFixed(4),
    );
    const own = [weight[2] ?? 0, weight[3] ?? 0];
    const expected = [own, own.map((w, c) => w + (columnSums[c] ?? 0)), own].flat();
    expect(gradient).toEqual(expected.map((g) => g.toFixed(4)));
  });
});

describe('the state dict', () => {
  test('holds copies of parameters and persistent buffers, shared ones under all names', async () => {
    const model = new Tied();
    const dict = await model.stateDict();
    expect(Object.keys(dict)).toEqual([
      'scale',
      'counter',
      'tokens.weight',
      'blocks.0.weight',
      'blocks.0.bias',
      'blocks.1.weight',
      'head.weight',
    ]);
    expect(model.namedState().map(([name]) => name)).toEqual(Object.keys(dict));
    expect(dict['head.weight']).toBe(dict['tokens.weight']);
    expect(dict['counter']).toEqual({ dtype: 'i32', shape: [], bytes: new Uint8Array(4) });
    dict['scale']?.bytes.fill(7);
    expect(await values(model.scale)).toEqual([1]);
  });

  test('loads into another model, in place', async () => {
    const [from, to] = [new Tied(), new Tied()];
    const { weight } = to.tokens;
    const report = await to.loadStateDict(await from.stateDict());
    expect(report).toEqual({ missing: [], unexpected: [] });
    expect(to.tokens.weight).toBe(weight);
    expect(await to.stateDict()).toEqual(await from.stateDict());
  });

  test('is loaded into parameters that are on the device already, and gradients still flow', async () => {
    const model = new Linear(1, 1, { bias: false });
    await model.forward(tensor([[1]])).data();
    await model.loadStateDict({
      weight: { dtype: 'f32', shape: [1, 1], bytes: new Uint8Array(Float32Array.of(5).buffer) },
    });
    const y = model.forward(tensor([[3]]));
    y.backward();
    expect(await values(y)).toEqual([15]);
    expect(await values(model.weight.grad ?? tensor([]))).toEqual([3]);
  });

  test('that does not fit changes nothing, and the error lists everything', async () => {
    const model = new Sequential(new Linear(2, 3), new Linear(3, 1));
    const before = await model.stateDict();
    const { '0.bias': bias, '1.weight': _, ...rest } = before;
    const wrong = {
      ...rest,
      '0.bias': { dtype: 'f32', shape: [4], bytes: new Uint8Array(16) },
      extra: bias ?? { dtype: 'f32', shape: [], bytes: new Uint8Array(4) },
    } as const;
    await expect(model.loadStateDict(wrong)).rejects.toThrow(CheckpointError);
    await expect(model.loadStateDict(wrong)).rejects.toThrow(
      'load a state dict into Sequential: 1 missing: 1.weight; 1 unexpected: extra; 1 different: 0.bias (shape [4], not [3])',
    );
    await expect(model.loadStateDict(wrong, { strict: false })).rejects.toThrow(
      '1 different: 0.bias',
    );
    expect(await model.stateDict()).toEqual(before);
  });

  test('of which a part has no name here is loaded where it is not strict', async () => {
    const model = new Linear(1, 1);
    const weight = {
      dtype: 'f32',
      shape: [1, 1],
      bytes: new Uint8Array(Float32Array.of(2).buffer),
    } as const;
    const report = await model.loadStateDict({ weight, other: weight }, { strict: false });
    expect(report).toEqual({ missing: ['bias'], unexpected: ['other'] });
    expect(await values(model.weight)).toEqual([2]);
  });

  test.each([false, true])(
    'of which no name is here is refused, with the prefix that the names lack (strict: %s)',
    async (strict) => {
      const layers = new Sequential(new Linear(2, 3), new Linear(3, 1));
      const saved = await layers.stateDict();
      const named = Object.fromEntries(
        Object.entries(saved).map(([name, array]) => [`transformer.${name}`, array]),
      );
      await expect(layers.loadStateDict(named, { strict })).rejects.toThrow(
        /4 missing: 0\.weight.*4 unexpected: transformer\.0\.weight.*The names that were saved begin with 'transformer\.'/,
      );
      const whole = new (class extends Module {
        readonly transformer = layers;
      })();
      await expect(whole.loadStateDict(saved, { strict })).rejects.toThrow(
        /The names of the model begin with 'transformer\.'.*load them into its 'transformer'/,
      );
      expect(await whole.loadStateDict(named, { strict })).toEqual({ missing: [], unexpected: [] });
    },
  );

  test('with too few bytes is refused', async () => {
    const model = new Linear(2, 1, { bias: false });
    const weight = { dtype: 'f32', shape: [1, 2], bytes: new Uint8Array(4) } as const;
    await expect(model.loadStateDict({ weight })).rejects.toThrow('4 bytes, not 8');
  });

  test.each([
    ['f16', Uint16Array.of(0x3e00, 0xc000)],
    ['bf16', Uint16Array.of(0x3fc0, 0xc000)],
    ['f64', Float64Array.of(1.5, -2)],
  ] as const)('of %s becomes f32', async (dtype, data) => {
    const model = new Linear(2, 1, { bias: false });
    await model.loadStateDict({
      weight: { dtype, shape: [1, 2], bytes: new Uint8Array(data.buffer) },
    });
    expect(await values(model.weight)).toEqual([1.5, -2]);
  });

  test('of f64 with a number that would become infinite is refused by the name of the tensor', async () => {
    const model = new Linear(2, 1, { bias: false });
    const weight = (...numbers: readonly number[]) =>
      ({
        dtype: 'f64',
        shape: [1, 2],
        bytes: new Uint8Array(Float64Array.from(numbers).buffer),
      }) as const;
    await expect(model.loadStateDict({ weight: weight(1, -1e39) })).rejects.toThrow(
      'weight (f64, not f32)',
    );
    await model.loadStateDict({ weight: weight(NaN, Infinity) });
    expect(await values(model.weight)).toEqual([NaN, Infinity]);
  });

  test('of PyTorch counts batches in i64, which becomes i32 where it fits', async () => {
    const model = new BatchNorm2d(1, { affine: false });
    const dict = await model.stateDict();
    expect(Object.keys(dict)).toEqual(['running_mean', 'running_var', 'num_batches_tracked']);
    const counted = (count: bigint) => ({
      ...dict,
      num_batches_tracked: {
        dtype: 'i64' as const,
        shape: [],
        bytes: new Uint8Array(BigInt64Array.of(count).buffer),
      },
    });
    await model.loadStateDict(counted(12n));
    expect(await values(model.numBatchesTracked)).toEqual([12]);
    await expect(model.loadStateDict(counted(2n ** 40n))).rejects.toThrow('i64, not i32');
  });
});

test('a model prints as a tree', () => {
  const model = new Sequential(
    new Conv2d(3, 8, 3, { padding: 1 }),
    new Sequential(new LayerNorm(8), new MultiheadAttention(8, 2)),
    new Dropout(0.1),
  );
  expect(model.toString()).toMatchInlineSnapshot(`
    "Sequential(
      (0): Conv2d(3, 8, kernel=[3, 3], padding=1, bias=true)
      (1): Sequential(
        (0): LayerNorm(8, eps=0.00001)
        (1): MultiheadAttention(
          embedDim=8, numHeads=2, keyHeads=2
          (out_proj): Linear(inFeatures=8, outFeatures=8, bias=true)
        )
      )
      (2): Dropout(p=0.1)
    )"
  `);
});

test('initial values are those of the generator that is given', async () => {
  const [a, b] = [
    new Linear(2, 3, { generator: new Generator(7) }),
    new Linear(2, 3, { generator: new Generator(7) }),
  ];
  expect(await a.stateDict()).toEqual(await b.stateDict());
  expect(await new Linear(2, 3).stateDict()).not.toEqual(await a.stateDict());
});
