import { mkdtemp, readdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import {
  type Backend,
  CheckpointError,
  decodeSafetensors,
  encodeSafetensors,
  fromData,
  type HostArrays,
  hostPages,
  LineMesh,
  nn,
  optim,
  type ProcessGroup,
  setRank,
  type Tensor,
} from '@shardwise/core';
import { singleGroup } from '@shardwise/collectives';
import { layerParameter, OffloadedOptimizer } from '@shardwise/strategies';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { exportModel } from '../src/checkpoint/single-file/export-model.ts';
import { loadCheckpoint } from '../src/checkpoint/load/load-checkpoint.ts';
import type { Checkpoint } from '../src/checkpoint/load/open-checkpoint.ts';
import { loadModel } from '../src/checkpoint/load/load-model.ts';
import { loadOptimizer } from '../src/checkpoint/load/load-optimizer.ts';
import { saveCheckpoint } from '../src/checkpoint/save/save-checkpoint.ts';

class Tied extends nn.Module {
  readonly first = new nn.Linear(3, 3, { bias: false });
  readonly second = new nn.Linear(3, 3);

  constructor() {
    super();
    this.second.weight = this.first.weight;
  }
}

class Untied extends nn.Module {
  readonly first = new nn.Linear(3, 3, { bias: false });
  readonly second = new nn.Linear(3, 3);
}

let directory = '';
let device: Backend;
beforeAll(async () => {
  device = await cpu();
});
beforeEach(async () => {
  setRank({ device });
  directory = await mkdtemp(join(tmpdir(), 'shardwise-load-'));
});

async function numbers(tensor: Tensor): Promise<readonly number[]> {
  return Array.from(await tensor.data(), Number);
}

/** Makes one update with gradients of ones. */
async function update(model: nn.Linear, optimizer: optim.AdamW | optim.SGD): Promise<void> {
  optimizer.zeroGrad();
  model
    .forward(fromData(Float32Array.of(1, 1, 1), [1, 3], 'f32'))
    .sum()
    .backward();
  await optimizer.step();
}

describe('loadModel', () => {
  it('gives shared parameters to a model that shares them, whatever name they are stored under', async () => {
    const saved = new Tied();
    const checkpoint = await loadCheckpoint(
      await saveCheckpoint(directory, { step: 1, model: saved }),
    );
    expect(checkpoint.model.names).toEqual(['first.weight', 'second.bias']);
    const [tied, untied] = [new Tied(), new Untied()];
    await loadModel(checkpoint, tied);
    await loadModel(checkpoint, untied);
    const expected = await numbers(saved.first.weight);
    expect(await numbers(tied.second.weight)).toEqual(expected);
    expect(await numbers(untied.first.weight)).toEqual(expected);
    expect(await numbers(untied.second.weight)).toEqual(expected);
  });

  it('lists all that is missing, unexpected and different, and changes nothing', async () => {
    const folder = await saveCheckpoint(directory, { step: 1, model: new nn.Linear(3, 2) });
    const other = new Scaled();
    const before = await numbers(other.weight);
    const error: unknown = await loadModel(await loadCheckpoint(folder), other).catch(
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(CheckpointError);
    expect(error).toMatchObject({
      fields: {
        missing: ['scale'],
        unexpected: ['bias'],
        different: ['weight (shape [2, 3], not [4])'],
      },
    });
    expect(await numbers(other.weight)).toEqual(before);
  });

  it('lets names differ where it is told to', async () => {
    const folder = await saveCheckpoint(directory, { step: 1, model: new nn.Linear(3, 2) });
    const other = new nn.Linear(3, 2, { bias: false });
    const report = await loadModel(await loadCheckpoint(folder), other, { strict: false });
    expect(report).toEqual({ missing: [], unexpected: ['bias'] });
  });

  it('converts smaller floats, and refuses what it cannot convert', async () => {
    const bf16 = new Uint8Array(Uint16Array.of(0x3f80, 0x4000, 0xbf00).buffer);
    const model: HostArrays = { weight: { dtype: 'bf16', shape: [3], bytes: bf16 } };
    const halves = await loadCheckpoint(await saveCheckpoint(directory, { step: 1, model }));
    const target = new Weight();
    await loadModel(halves, target);
    expect(await numbers(target.weight)).toEqual([1, 2, -0.5]);
    const counts: HostArrays = {
      weight: { dtype: 'u8', shape: [3], bytes: Uint8Array.of(1, 2, 3) },
    };
    const integers = await loadCheckpoint(
      await saveCheckpoint(directory, { step: 2, model: counts }),
    );
    await expect(loadModel(integers, target)).rejects.toThrow(
      /1 different: weight \(u8, not f32\)/,
    );
  });

  it('changes nothing where a byte is damaged', async () => {
    const folder = await saveCheckpoint(directory, { step: 1, model: new nn.Linear(3, 2) });
    const path = join(folder, 'model-00001-of-00001.safetensors');
    const file = await readFile(path);
    file[file.byteLength - 1] = (file.at(-1) ?? 0) ^ 128;
    await writeFile(path, file);
    const other = new nn.Linear(3, 2);
    const before = await numbers(other.bias ?? other.weight);
    await expect(loadModel(await loadCheckpoint(folder), other)).rejects.toThrow(/CRC-32/);
    expect(await numbers(other.bias ?? other.weight)).toEqual(before);
  });
});

class Weight extends nn.Module {
  readonly weight = new nn.Parameter(Float32Array.of(0, 0, 0), [3]);
}

class Scaled extends nn.Module {
  readonly weight = new nn.Parameter(Float32Array.of(1, 2, 3, 4), [4]);
  readonly scale = new nn.Parameter(Float32Array.of(1), [1]);
}

/** A group that claims to have two ranks and does not communicate. */
function oneOfTwo(rank: number): ProcessGroup {
  return new Proxy(singleGroup(), {
    get: (group, key): unknown => {
      if (key === 'rank') return rank;
      if (key === 'orderCalls') return undefined;
      return key === 'size' ? 2 : Reflect.get(group, key);
    },
  });
}

/** One of two parts of a fused projection [6, 2]. The part has rows of three sections, or columns of two. */
class FusedPart extends nn.Module {
  readonly weight: nn.Parameter;

  constructor(dim: number, part: number, wholeShape: readonly [number, number] = [6, 2]) {
    super();
    const [rows, columns] = wholeShape;
    setRank({ device, mesh: new LineMesh('tp', oneOfTwo(part)) });
    this.weight = layerParameter(new Float32Array((rows * columns) / 2), {
      wholeShape,
      layout:
        dim === 0
          ? { dims: [['tp'], []], partial: [], sections: { tp: [2, 2, 2] } }
          : { dims: [[], ['tp']], partial: [] },
      dtype: 'f32',
      requiresGrad: true,
    });
  }
}

class Fused extends nn.Module {
  readonly weight = new nn.Parameter(
    Float32Array.from({ length: 12 }, (_, index) => index),
    [6, 2],
  );
}

describe('loadModel of a part of a parameter', () => {
  async function savedFused(): Promise<Checkpoint> {
    return loadCheckpoint(await saveCheckpoint(directory, { step: 1, model: new Fused() }));
  }

  it.each([
    [0, 0, [0, 1, 4, 5, 8, 9]],
    [0, 1, [2, 3, 6, 7, 10, 11]],
    [1, 0, [0, 2, 4, 6, 8, 10]],
    [1, 1, [1, 3, 5, 7, 9, 11]],
  ] as const)('along dim %i reads what part %i has', async (dim, part, expected) => {
    const checkpoint = await savedFused();
    const model = new FusedPart(dim, part);
    await loadModel(checkpoint, model);
    expect(await numbers(model.weight.part)).toEqual(expected);
  });

  it('is refused with both shapes where the whole has another one', async () => {
    const checkpoint = await savedFused();
    const moments = await savedMoments();
    // The part has as many elements as a part of the stored tensor, but the whole shape differs.
    const model = new FusedPart(1, 0, [2, 6]);
    await expect(loadModel(checkpoint, model)).rejects.toThrow(CheckpointError);
    await expect(loadModel(checkpoint, model)).rejects.toThrow(
      /weight \(shape \[6, 2\], not \[2, 6\]\)/,
    );
    await expect(
      loadOptimizer(moments, model, new optim.AdamW(model.parameters())),
    ).rejects.toThrow(/weight\.exp_avg \(shape \[6, 2\], not \[2, 6\]\)/);
  });

  async function savedMoments(): Promise<Checkpoint> {
    const model = new Fused();
    const optimizer = new optim.AdamW(model.parameters());
    model.weight.sum().backward();
    await optimizer.step();
    return loadCheckpoint(await saveCheckpoint(directory, { step: 2, model, optimizer }));
  }

  it('is not saved by one rank of two, which has half of it', async () => {
    await expect(
      saveCheckpoint(directory, { step: 1, model: new FusedPart(1, 0) }),
    ).rejects.toThrow(/the parts do not make up weight \(\[0:6, 0:1\] of 12 elements\)/);
  });
});

describe('loadOptimizer', () => {
  async function saved(): Promise<{ model: nn.Linear; optimizer: optim.AdamW }> {
    const model = new nn.Linear(3, 2);
    const optimizer = new optim.AdamW(groupsOf(model), { lr: 0.1 });
    await update(model, optimizer);
    await saveCheckpoint(directory, { step: 1, model, optimizer });
    return { model, optimizer };
  }

  const groupsOf = (model: nn.Linear): { params: Tensor[]; weightDecay: number }[] => [
    { params: [model.weight], weightDecay: 0.5 },
    { params: model.bias === null ? [] : [model.bias], weightDecay: 0 },
  ];

  it('takes one of several optimizers, as they are chosen by an option, also offloaded ones', async () => {
    await saved();
    const checkpoint = await loadCheckpoint(directory);
    const again = new nn.Linear(3, 2);
    const chosen =
      checkpoint.step > 0 ? new optim.AdamW(groupsOf(again)) : new optim.SGD(groupsOf(again));
    const offloaded = new OffloadedOptimizer(again, chosen, { states: hostPages() });
    for (const optimizer of [chosen, offloaded]) {
      await loadOptimizer(checkpoint, again, optimizer);
      expect(optimizer.stateOf(again.weight)?.steps).toBe(1);
      expect(optimizer.paramGroups.map(({ lr }) => lr)).toEqual([0.1, 0.1]);
    }
  });

  it('continues as if nothing had happened, also with groups in another order', async () => {
    const { model, optimizer } = await saved();
    const checkpoint = await loadCheckpoint(directory);
    const again = new nn.Linear(3, 2);
    const restored = new optim.AdamW(groupsOf(again).toReversed(), { lr: 7 });
    await loadModel(checkpoint, again);
    await loadOptimizer(checkpoint, again, restored);
    const settings = ({ params: _, ...rest }: optim.ParamGroup<{ lr: number }>): object => rest;
    expect(restored.paramGroups.map(settings)).toEqual(
      optimizer.paramGroups.map(settings).toReversed(),
    );
    for (const [each, its] of [
      [model, optimizer],
      [again, restored],
    ] as const) {
      await update(each, its);
    }
    expect(await numbers(again.weight)).toEqual(await numbers(model.weight));
  });

  it('lists parameters that are missing, unexpected and different', async () => {
    await saved();
    const other = new nn.Linear(3, 4);
    const optimizer = new optim.AdamW([other.weight]);
    await expect(loadOptimizer(await loadCheckpoint(directory), other, optimizer)).rejects.toThrow(
      /1 unexpected: bias; 2 different: weight\.exp_avg \(shape \[2, 3\], not \[4, 3\]\), weight\.exp_avg_sq/,
    );
    const model = new Tied();
    await expect(
      loadOptimizer(await loadCheckpoint(directory), model, new optim.AdamW(model.parameters())),
    ).rejects.toThrow(/2 missing: first\.weight, second\.bias; 2 unexpected: weight, bias/);
  });

  it('refuses settings of another kind, and groups that would have to be cut', async () => {
    await saved();
    const checkpoint = await loadCheckpoint(directory);
    const model = new nn.Linear(3, 2);
    const one = new optim.AdamW(model.parameters());
    await expect(loadOptimizer(checkpoint, model, one)).rejects.toThrow(
      /parameter group 0: its parameters were saved in 2 groups of other settings/,
    );
    const path = join(checkpoint.directory, 'state.json');
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replaceAll('"lr": 0.1', '"lr": "fast"'));
    const two = new optim.AdamW(groupsOf(model));
    await expect(loadOptimizer(await loadCheckpoint(directory), model, two)).rejects.toThrow(
      /a lr that is a string, not a number/,
    );
  });

  it('is not saved with parameters of another model', async () => {
    const optimizer = new optim.SGD(new nn.Linear(3, 2).parameters());
    await expect(
      saveCheckpoint(directory, { step: 1, model: new nn.Linear(3, 2), optimizer }),
    ).rejects.toThrow(/a parameter of shape \[2, 3\] that the model does not have/);
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('exportModel', () => {
  it('writes one file with all names, byte for byte what encodeSafetensors writes', async () => {
    const model = new Tied();
    await saveCheckpoint(directory, { step: 1, model });
    const path = join(directory, 'model.safetensors');
    await exportModel(directory, path);
    const expected = await model.stateDict();
    expect(Object.keys(expected)).toEqual(['first.weight', 'second.weight', 'second.bias']);
    const file = await readFile(path);
    expect(file.equals(encodeSafetensors(expected, { format: 'pt' }))).toBe(true);
  });

  it('rounds floats to a dtype, leaves integers, and adds texts', async () => {
    const model: HostArrays = {
      weight: { dtype: 'f32', shape: [2], bytes: new Uint8Array(Float32Array.of(1, 3.01).buffer) },
      count: { dtype: 'i64', shape: [], bytes: new Uint8Array(BigInt64Array.of(7n).buffer) },
    };
    await saveCheckpoint(directory, { step: 1, model });
    const path = join(directory, 'model.safetensors');
    await exportModel(directory, path, { dtype: 'bf16', metadata: { base: 'gpt2' } });
    const { tensors, metadata } = decodeSafetensors(new Uint8Array(await readFile(path)));
    expect(metadata).toEqual({ base: 'gpt2', format: 'pt' });
    expect(tensors.weight?.dtype).toBe('bf16');
    expect(tensors.weight?.bytes).toEqual(new Uint8Array(Uint16Array.of(0x3f80, 0x4041).buffer));
    expect(tensors.count).toEqual(model.count);
    await expect(exportModel(directory, path, { dtype: 'i32' } as never)).rejects.toThrow(
      /exportModel with dtype/,
    );
  });

  it('refuses a dtype in which a number would be infinite, and writes nothing', async () => {
    const bytes = new Uint8Array(Float32Array.of(1, -70_000).buffer);
    const model: HostArrays = { weight: { dtype: 'f32', shape: [2], bytes } };
    await saveCheckpoint(directory, { step: 1, model });
    const path = join(directory, 'model.safetensors');
    await expect(exportModel(directory, path, { dtype: 'f16' })).rejects.toThrow(
      /to export 'weight' as f16.*numbers in f32 that would be infinite/s,
    );
    await expect(readFile(path)).rejects.toThrow('ENOENT');
    await exportModel(directory, path, { dtype: 'bf16' });
  });

  it('leaves nothing where it cannot write or the checkpoint is damaged', async () => {
    const folder = await saveCheckpoint(directory, { step: 1, model: new nn.Linear(3, 2) });
    await expect(exportModel(folder, join(directory, 'absent', 'm'))).rejects.toThrow(
      /Exporting .* ENOENT.*Give a file in a folder that is there/,
    );
    const path = join(folder, 'model-00001-of-00001.safetensors');
    const file = await readFile(path);
    file[file.byteLength - 1] = (file.at(-1) ?? 0) ^ 128;
    await writeFile(path, file);
    await expect(exportModel(folder, join(directory, 'm'))).rejects.toThrow(/CRC-32/);
    expect((await readdir(directory)).sort()).toEqual(['latest', 'step-000001']);
  });
});
