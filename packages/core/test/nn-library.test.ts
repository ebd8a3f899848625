import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import * as nn from '../src/nn.ts';
import { AdamW } from '../src/optim/adam.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError, ShapeError, TensorStateError } from '../src/spec/errors.ts';
import { ones, tensor, zeros } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => {
  setRank({ device: interpreter() });
  manualSeed(0);
});

async function values(x: Tensor): Promise<number[]> {
  return Array.from(await x.data(), Number);
}

class Heads extends nn.Module {
  readonly heads = new nn.ModuleDict({ left: new nn.Linear(2, 1), right: new nn.Linear(2, 3) });
  readonly scales = new nn.ParameterList(
    [1, 2].map((size) => new nn.Parameter(new Float32Array(size), [size])),
  );
  readonly rest = new nn.Sequential(new nn.Identity(), new nn.LSTM(2, 1) as never);
}

describe('containers', () => {
  test('give what they hold PyTorch’s names', async () => {
    expect(Object.keys(await new Heads().stateDict())).toEqual([
      'heads.left.weight',
      'heads.left.bias',
      'heads.right.weight',
      'heads.right.bias',
      'scales.0',
      'scales.1',
      'rest.1.weight_ih_l0',
      'rest.1.weight_hh_l0',
      'rest.1.bias_ih_l0',
      'rest.1.bias_hh_l0',
    ]);
  });

  test('are read as maps and lists', () => {
    const { heads, scales } = new Heads();
    expect(heads.length).toBe(2);
    expect(heads.has('left')).toBe(true);
    expect(heads.get('right')?.toString()).toContain('outFeatures=3');
    expect([...heads].map(([name]) => name)).toEqual(['left', 'right']);
    expect(heads.delete('left')).toBe(true);
    expect(heads.get('left')).toBeUndefined();
    expect(scales.length).toBe(2);
    expect(scales.at(-1)?.numel).toBe(2);
    expect([...scales].map(({ numel }) => numel)).toEqual([1, 2]);
  });

  test('refuse what they do not hold, and names that state dicts could not tell apart', () => {
    expect(() => new nn.ModuleDict({ a: 3 as never })).toThrow("3 as 'a'");
    expect(() => new nn.ModuleDict({ 'a.b': new nn.Identity() })).toThrow(ConfigError);
    expect(() => new nn.ParameterList([tensor([1]) as never])).toThrow('a ParameterList');
  });

  test('a parameter that takes the place of another one in a list is read there', () => {
    const { scales } = new Heads();
    const [first] = scales;
    const other = new nn.Parameter(new Float32Array(1), [1]);
    if (first !== undefined) scales.replaceParameters(new Map([[first, other]]));
    expect(scales.at(0)).toBe(other);
  });
});

describe('getSubmodule', () => {
  test('finds a module by its path', () => {
    const model = new Heads();
    expect(model.getSubmodule('heads.right')).toBe(model.heads.get('right'));
    expect(model.getSubmodule('')).toBe(model);
  });

  test('says which names there are', () => {
    expect(() => new Heads().getSubmodule('heads.middle')).toThrow(
      "no module 'middle' where there are left, right",
    );
  });
});

describe('to(dtype)', () => {
  test('converts floats, keeps integers, what is frozen and what is shared', async () => {
    const norm = new nn.BatchNorm1d(2);
    const model = new nn.Sequential(new nn.Linear(2, 2), norm);
    const [shared] = model.parameters();
    if (shared === undefined || norm.weight === null) throw new RangeError();
    norm.weight.requiresGrad_(false);
    const holder = new nn.ParameterList([shared]);
    const all = new nn.ModuleDict<nn.Module>({ model, holder });
    await all.to('bf16');
    const dtypes = Object.entries(await all.stateDict()).map(([name, { dtype }]) => [name, dtype]);
    expect(Object.fromEntries(dtypes)).toEqual({
      'model.0.weight': 'bf16',
      'model.0.bias': 'bf16',
      'model.1.weight': 'bf16',
      'model.1.bias': 'bf16',
      'model.1.running_mean': 'bf16',
      'model.1.running_var': 'bf16',
      'model.1.num_batches_tracked': 'i32',
      'holder.0': 'bf16',
    });
    expect(norm.weight.requiresGrad).toBe(false);
    expect(holder.at(0)).toBe(model.parameters()[0]);
    const y = model.forward(
      tensor([
        [1, 2],
        [3, 5],
      ]).to('bf16'),
    );
    expect(y.dtype).toBe('bf16');
    expect((await values(y.to('f32'))).every(Number.isFinite)).toBe(true);
  });

  test('has an optimizer that was made before it fail, which would train what no model has', async () => {
    const model = new nn.Linear(1, 1);
    const optimizer = new AdamW(model.parameters());
    await model.to('f16');
    await expect(optimizer.step()).rejects.toThrow(TensorStateError);
    await expect(optimizer.step()).rejects.toThrow('Make optimizers after parallelize() and to()');
  });

  test('refuses integers', async () => {
    await expect(new nn.Linear(1, 1).to('i32')).rejects.toThrow('a dtype that is no float');
  });
});

test('convertSyncBatchNorm has every batch norm of a model use the whole batch, wherever it is held', () => {
  const model = new nn.ModuleDict<nn.Module>({
    list: new nn.Sequential(new nn.Linear(2, 2), new nn.BatchNorm1d(2)),
    alone: new nn.BatchNorm2d(3),
  });
  const axes = (): unknown[] =>
    model.namedModules().flatMap(([, module]) => ('axis' in module ? [module.axis] : []));
  expect(axes()).toEqual([null, null]);
  nn.convertSyncBatchNorm(model);
  expect(axes()).toEqual(['dp', 'dp']);
  expect(model.get('alone')?.toString()).toContain('axis=dp');
});

describe('recurrent layers', () => {
  test('drop what goes from layer to layer in training, and nothing in evaluation', async () => {
    const layer = new nn.GRU(1, 8, { numLayers: 2, dropout: 0.5 });
    const x = ones([3, 1, 1]);
    const run = async (): Promise<number[]> => values(layer.forward(x)[0]);
    expect(await run()).not.toEqual(await run());
    layer.eval();
    expect(await run()).toEqual(await run());
  });

  test('go on from the state of an earlier part of a sequence', async () => {
    const layer = new nn.LSTM(2, 3);
    const x = tensor([[[1, 2]], [[3, -1]], [[0, 5]]]);
    const [whole] = layer.forward(x);
    const [, state] = layer.forward(x.slice(0, 0, 2));
    const [rest] = layer.forward(x.slice(0, 2), state);
    expect(await values(rest)).toEqual((await values(whole)).slice(6));
  });

  test('refuse states and inputs of other sizes', () => {
    const layer = new nn.GRU(2, 3, { bidirectional: true });
    expect(() => layer.forward(ones([4, 1, 3]))).toThrow(ShapeError);
    expect(() => layer.forward(ones([4, 1, 2]), zeros([1, 1, 3]))).toThrow(
      'hidden of shape [1, 1, 3]: 1 layers times directions (dim 0) instead of 2',
    );
  });
});

describe('layers refuse', () => {
  const bad: readonly (readonly [string, () => unknown, string])[] = [
    [
      'an outputPadding that nothing would be computed for',
      () => new nn.ConvTranspose2d(1, 1, 2, { outputPadding: 1 }).forward(ones([1, 1, 2, 2])),
      'Use an outputPadding below stride or dilation',
    ],
    [
      'channels that groups do not divide',
      () => new nn.Conv1d(3, 4, 1, { groups: 2 }),
      'Conv1d of 3 input and 4 output channels in 2 groups',
    ],
    [
      'a kernel that is deeper than a volume',
      () => new nn.Conv3d(1, 1, 3).forward(ones([1, 1, 2, 3, 3])),
      'a kernel that is 3 deep',
    ],
    [
      'a sequence in the place of an image',
      () => new nn.BatchNorm2d(3).forward(ones([2, 3, 4])),
      'BatchNorm2d with x of shape [2, 3, 4]: 3 dims instead of 4',
    ],
    [
      'channels that stand last',
      () => new nn.BatchNorm1d(3).forward(ones([2, 4, 3])),
      '4 channels (dim 1) instead of 3',
    ],
    [
      'one value for each channel in training',
      () => new nn.InstanceNorm2d(3).forward(ones([2, 3, 1, 1])),
      'which has no variance',
    ],
    [
      "PyTorch's argument `training` of dropout",
      () => Reflect.apply(nn.functional.dropout, null, [ones([4]), 0.5, false]),
      'dropout has no argument `training`. Write this.training ? dropout(x, probability) : x',
    ],
    [
      'dropout between layers of which there is one',
      () => new nn.LSTM(2, 2, { dropout: 0.5 }),
      'dropout is between layers, and would have no effect',
    ],
    ['groups that do not divide', () => new nn.GroupNorm(2, 3), 'GroupNorm of 3 channels in 2'],
    [
      'a mode for other dims',
      () => nn.functional.interpolate(ones([1, 1, 4]), { size: 2, mode: 'bilinear' }),
      'a mode for x of 4 dims',
    ],
    [
      'a size beside a factor',
      () => nn.functional.interpolate(ones([1, 1, 4]), { size: 2, scaleFactor: 2 }),
      'both or none of them',
    ],
    [
      'a factor that does not divide the channels',
      () => nn.functional.pixelShuffle(ones([1, 6, 2, 2]), 2),
      '6 channels, which 4 does not divide',
    ],
    [
      'heads that do not divide',
      () => new nn.TransformerEncoderLayer(8, 3),
      'attention of width 8 with 3 heads',
    ],
  ];
  test.each(bad)('%s', (_, make, says) => {
    expect(make).toThrow(says);
  });
});
