import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { inflateSync } from 'node:zlib';
import { deepspeed } from '@shardwise/compat';
import {
  convertArray,
  dtypes,
  elementCount,
  replicated,
  type TensorSource,
  wholeChunk,
} from '@shardwise/core/extend';
import {
  CheckpointError,
  fromData,
  init,
  nn,
  optim,
  type RankContext,
  type Tensor,
} from 'shardwise';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';

const tensors = z.record(z.string(), z.array(z.number()));
const golden = z
  .array(
    z.object({
      stage: z.union([z.literal(1), z.literal(2), z.literal(3)]),
      ranks: z.number(),
      dtype: z.enum(['fp32', 'bf16', 'fp16']),
      files: z.record(z.string(), z.string()),
      weights: tensors,
      exp_avg: tensors,
      exp_avg_sq: tensors,
      lossScale: z.number(),
      losses: z.array(z.number()),
    }),
  )
  .parse(
    JSON.parse(await readFile(new URL('./golden/zero-checkpoints.json', import.meta.url), 'utf8')),
  );

let root = '';
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'zero-checkpoints-'));
});
afterAll(() => rm(root, { recursive: true }));

async function written(
  files: Readonly<Record<string, string>>,
  folder: string,
  change: (name: string, bytes: Uint8Array) => Uint8Array | null = (_, bytes) => bytes,
): Promise<string> {
  const directory = join(root, folder);
  for (const [name, text] of Object.entries(files)) {
    const bytes = change(name, new Uint8Array(inflateSync(Buffer.from(text, 'base64'))));
    if (bytes === null) continue;
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), bytes);
  }
  return directory;
}

async function valuesOf(source: TensorSource): Promise<Record<string, number[]>> {
  const found: Record<string, number[]> = {};
  await using reader = source.open();
  for (const name of source.names) {
    const { shape, dtype } = source.get(name) ?? expect.fail(name);
    const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
    await reader.fill(name, wholeChunk(shape), bytes, { layout: replicated(shape) });
    const wide = convertArray({ dtype, shape, bytes }, 'f32') ?? expect.fail(dtype);
    found[name] = [...new Float32Array(wide.bytes.buffer)];
  }
  return found;
}

/** The model that tools/golden-zero-checkpoints.py trains. */
class Network extends nn.Module {
  readonly scale = new nn.BufferTensor(Float32Array.of(2), [1]);
  readonly first = new nn.Linear(5, 3);
  readonly frozen = new nn.Linear(3, 3).requiresGrad_(false);
  readonly last = new nn.Linear(3, 1, { bias: false });
  readonly tied = new nn.Linear(3, 1, { bias: false });

  constructor() {
    super();
    this.tied.weight = this.last.weight;
  }

  forward(x: Tensor): Tensor {
    return this.last
      .forward(this.frozen.forward(this.first.forward(x).tanh()).tanh())
      .mul(this.scale);
  }
}

/** The batch of all ranks in a step. */
function batchOf(step: number, ranks: number): { x: Tensor; target: Tensor } {
  const rows = Array.from({ length: ranks * 4 }, (_, at) => {
    const [rank, row] = [Math.floor(at / 4), at % 4];
    return Array.from(
      { length: 5 },
      (__, column) => ((7 * row + 3 * column + 11 * step + 5 * rank) % 13) / 6 - 1,
    );
  });
  const x = fromData(Float32Array.from(rows.flat()), [rows.length, 5], 'f32');
  return { x, target: x.sum(1, { keepDim: true }).div(5) };
}

const config = {
  train_micro_batch_size_per_gpu: 4,
  scheduler: {
    type: 'WarmupDecayLR',
    params: {
      warmup_max_lr: 0.05,
      warmup_num_steps: 2,
      total_num_steps: 20,
      warmup_type: 'linear',
    },
  },
};

/** The groups of the golden model, with other settings than those that were saved. */
function adamW(parameters: readonly Tensor[]): optim.AdamW {
  const [first, bias, , , last] = parameters;
  if (first === undefined || bias === undefined || last === undefined) throw new RangeError('5');
  return new optim.AdamW([{ params: [first, last] }, { params: [bias] }], { lr: 1, eps: 1e-3 });
}

let context: RankContext;
beforeAll(async () => {
  vi.spyOn(console, 'log').mockImplementation(() => {});
  context = await init();
});
afterAll(() => context.close());

describe.each(golden)(
  'a checkpoint of DeepSpeed in stage $stage of $ranks ranks in $dtype',
  ({ stage, ranks, dtype, files, weights, lossScale, losses, ...states }) => {
    it('has the weights that zero_to_fp32.py finds, and the states of the optimizer', async () => {
      const directory = await written(files, `${stage}-${ranks}`);
      const found = await deepspeed.readZeroCheckpoint(directory);
      expect(found).toMatchObject({ tag: 'global_step4', stage, ranks, globalSteps: 4 });
      expect(found.globalSamples).toBe(16 * ranks);
      expect(found.clientState).toEqual({ epoch: 3, note: { best: [0.5, 'loss'] } });
      expect(found.scheduler).toEqual({ last_batch_iteration: 3 });
      expect(found.lossScaler['cur_scale']).toBe(lossScale);
      expect(found.optimizerGroups).toMatchObject([
        { params: ['first.weight', 'last.weight'], settings: { weight_decay: 0.1 }, steps: 4 },
        { params: ['first.bias'], settings: { weight_decay: 0 }, steps: 4 },
      ]);
      expect(await valuesOf(found.weights)).toMatchObject(weights);
      const { exp_avg: mean, exp_avg_sq: square, ...others } = found.optimizerStates;
      expect(Object.keys(others)).toEqual([]);
      expect(mean && (await valuesOf(mean))).toEqual(states.exp_avg);
      expect(square && (await valuesOf(square))).toEqual(states.exp_avg_sq);
    });

    it('has frozen parameters, buffers and the names of shared parameters', async () => {
      const directory = await written(files, `${stage}-${ranks}-names`);
      const { weights: source } = await deepspeed.readZeroCheckpoint(directory);
      expect(source.names.toSorted()).toEqual([
        'first.bias',
        'first.weight',
        'frozen.bias',
        'frozen.weight',
        'last.weight',
        'scale',
        'tied.weight',
      ]);
    });

    it('continues in an engine with the losses that it has in DeepSpeed', async () => {
      const directory = await written(files, `${stage}-${ranks}-engine`);
      const { engine } = await deepspeed.initialize({
        model: new Network(),
        config: {
          ...config,
          train_micro_batch_size_per_gpu: 4 * ranks,
          ...(dtype === 'fp32' ? {} : { [dtype]: { enabled: true } }),
          zero_optimization: { stage },
        },
        optimizer: adamW,
        context,
      });
      const loaded = await engine.loadCheckpoint(directory);
      expect(loaded).toEqual({
        path: join(directory, 'global_step4'),
        clientState: { epoch: 3, note: { best: [0.5, 'loss'] } },
      });
      expect([engine.globalSteps, engine.globalSamples]).toEqual([4, 16 * ranks]);
      if (dtype === 'fp16') expect(engine.lossScale).toBe(lossScale);
      expect(engine.optimizer?.paramGroups).toMatchObject([
        { weightDecay: 0.1, eps: 1e-8 },
        { weightDecay: 0, eps: 1e-8 },
      ]);
      // DeepSpeed computes everything in 16 bits, and the library products alone.
      const digits = dtype === 'fp32' ? 6 : 2.5;
      for (const [index, expected] of losses.entries()) {
        const { x, target } = batchOf(4 + index, ranks);
        const loss = nn.functional.mseLoss(engine.forward(x), target);
        engine.backward(loss);
        await engine.step();
        expect(await loss.item()).toBeCloseTo(expected, digits);
      }
      expect(engine.globalSteps).toBe(8);
    });

    it('gives any chunk of a tensor', async () => {
      const directory = await written(files, `${stage}-${ranks}-chunk`);
      const { weights: source } = await deepspeed.readZeroCheckpoint(directory, 'global_step4');
      await using reader = source.open();
      const values = new Float32Array(4);
      // Columns 2 and 3 of rows 1 and 2.
      const box = [
        { start: 1, stop: 3 },
        { start: 2, stop: 4 },
      ];
      const chunk = { box, start: 0, stop: 4 };
      const bytes = new Uint8Array(values.buffer);
      await reader.fill('first.weight', chunk, bytes, { layout: replicated([3, 5]) });
      const all = weights['first.weight'] ?? [];
      expect([...values]).toEqual([7, 8, 12, 13].map((index) => all[index]));
    });
  },
);

describe('an engine', () => {
  const { files = {} } = golden[0] ?? {};
  type Options = Parameters<typeof deepspeed.initialize<Network, [Tensor], Tensor>>[0];
  const engineWith = async (options: Partial<Options>) =>
    (await deepspeed.initialize({ model: new Network(), config, context, ...options })).engine;

  it('leaves out what it is told to', async () => {
    const directory = await written(files, 'parts');
    const engine = await engineWith({ config: { train_batch_size: 4 }, optimizer: adamW });
    await engine.loadCheckpoint(directory, { loadModuleOnly: true });
    expect(await engine.module.first.bias?.data()).toEqual(
      Float32Array.from(golden[0]?.weights['first.bias'] ?? []),
    );
    expect([engine.globalSteps, engine.optimizer?.paramGroups[0]?.lr]).toEqual([0, 1]);
  });

  it('refuses an optimizer of other parameters, before anything changes', async () => {
    const directory = await written(files, 'parameters');
    const engine = await engineWith({
      optimizer: ([first, bias]) => new optim.AdamW([first, bias].flatMap((each) => each ?? [])),
    });
    const before = await engine.module.first.weight.data();
    await expect(engine.loadCheckpoint(directory)).rejects.toThrow(
      /1 unexpected: last.weight.*loadOptimizerStates: false/,
    );
    expect(await engine.module.first.weight.data()).toEqual(before);
  });

  it('refuses an optimizer without these states', async () => {
    const directory = await written(files, 'states');
    const engine = await engineWith({
      optimizer: (all) =>
        new optim.SGD(
          all.filter(({ requiresGrad }) => requiresGrad),
          { lr: 1 },
        ),
    });
    await expect(engine.loadCheckpoint(directory)).rejects.toThrow(/exp_avg/);
  });

  it('refuses one group where there were two with other settings', async () => {
    const directory = await written(files, 'groups');
    const engine = await engineWith({
      optimizer: (all) => new optim.AdamW(all.filter(({ requiresGrad }) => requiresGrad)),
    });
    await expect(engine.loadCheckpoint(directory)).rejects.toThrow(/2 groups of other settings/);
  });

  it('refuses a schedule that is none of DeepSpeed', async () => {
    const directory = await written(files, 'schedule');
    const engine = await engineWith({
      optimizer: adamW,
      lrScheduler: (own) => new optim.LearningRateScheduler(own, () => 1),
    });
    await expect(engine.loadCheckpoint(directory)).rejects.toThrow(
      /lrScheduler is another one.*loadLrSchedulerStates: false/,
    );
    await engine.loadCheckpoint(directory, { loadLrSchedulerStates: false });
    expect(engine.globalSteps).toBe(4);
  });

  it('names the folder above for the folder of a tag', async () => {
    const directory = await written(files, 'above');
    const engine = await engineWith({ optimizer: adamW });
    await expect(engine.loadCheckpoint(join(directory, 'global_step4'))).rejects.toThrow(
      /the folder above it, and \{ tag: 'global_step4' \}/,
    );
  });
});

describe('a folder that is not whole', () => {
  const { files = {} } = golden.find(({ ranks }) => ranks === 3) ?? {};
  const readFrom = (directory: string, tag?: string) => async () =>
    deepspeed.readZeroCheckpoint(directory, tag);

  it('is refused without the file of a rank', async () => {
    const directory = await written(files, 'rank', (name, bytes) =>
      name.includes('rank_1_mp') ? null : bytes,
    );
    await expect(readFrom(directory)).rejects.toThrow(/files of 2 ranks, where 3 saved/);
  });

  it('is refused without the file latest, and with one that leads out of it', async () => {
    const none = await written(files, 'none', (name, bytes) => (name === 'latest' ? null : bytes));
    await expect(readFrom(none)).rejects.toThrow(/no file "latest".* Give the tag/);
    const out = await written(files, 'out', (name, bytes) =>
      name === 'latest' ? new TextEncoder().encode('../elsewhere') : bytes,
    );
    await expect(readFrom(out)).rejects.toThrow(CheckpointError);
    await expect(readFrom(none, 'global_step8')).rejects.toThrow(/global_step8/);
  });

  it('is refused with a file that is cut off', async () => {
    const directory = await written(files, 'cut', (name, bytes) =>
      name.includes('optim') ? bytes.subarray(0, bytes.length / 2) : bytes,
    );
    await expect(readFrom(directory)).rejects.toThrow(CheckpointError);
  });

  it('is refused if several ranks of tensor parallelism saved it', async () => {
    const name = 'global_step4/mp_rank_00_model_states.pt';
    const other = { ...files, [name.replace('_00_', '_01_')]: files[name] ?? '' };
    await expect(readFrom(await written(other, 'mp'))).rejects.toThrow(/tensor or pipeline/);
  });
});
