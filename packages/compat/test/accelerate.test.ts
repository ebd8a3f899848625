import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { accelerate } from '@shardwise/compat';
import { data, dist, init, nn, ones, optim, type RankContext } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

let context: RankContext;
beforeAll(async () => {
  context = await init();
});
afterAll(() => context.close());

const dataset = new data.ArrayDataset({ x: data.ndArray(new Float32Array(20), [10, 2]) });

async function fileOf(text: string): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), 'compat-')), 'default_config.yaml');
  await writeFile(path, text);
  return path;
}

describe('an Accelerator', () => {
  it('refuses options that it does not have', () => {
    const misspelt = { context, mixed_precision: 'bf16' };
    expect(() => new accelerate.Accelerator(misspelt)).toThrow('Write mixedPrecision');
    const both = { context, strategy: dist.ddp(), mixedPrecision: 'bf16' } as const;
    expect(() => new accelerate.Accelerator(both)).toThrow(
      'a strategy, which has its own precision',
    );
  });

  it('refuses an optimizer of parameters that the strategy has replaced', async () => {
    const accelerator = new accelerate.Accelerator({ context, strategy: dist.zero({ stage: 3 }) });
    const model = new nn.Linear(2, 1);
    const optimizer = new optim.SGD(model.parameters());
    await expect(
      accelerator.prepare({ model, optimizer, dataLoader: { dataset } }),
    ).rejects.toThrow('Pass a function: optimizer: (parameters) =>');
  });

  it('takes an optimizer that is made already where parameters stay', async () => {
    const accelerator = new accelerate.Accelerator({ context });
    const model = new nn.Linear(2, 1);
    const own = new optim.SGD(model.parameters(), { lr: 0.1 });
    const { optimizer, model: prepared } = await accelerator.prepare({
      model,
      optimizer: own,
      dataLoader: { dataset },
    });
    expect(optimizer.optimizer).toBe(own);
    expect(accelerator.unwrapModel(prepared)).toBe(model);
  });

  it('does not update in the passes before the last one, nor save in them', async () => {
    const accelerator = new accelerate.Accelerator({ context, gradientAccumulationSteps: 2 });
    const { model, optimizer } = await accelerator.prepare({
      model: new nn.Linear(2, 1),
      optimizer: (parameters) => new optim.SGD([...parameters], { lr: 0.1 }),
      dataLoader: { dataset },
    });
    const weights: number[] = [];
    for (let pass = 0; pass < 2; pass++) {
      await accelerator.accumulate(async () => {
        accelerator.backward(model.forward(ones([4, 2])).sum());
        expect(accelerator.clipGradNorm_(model.parameters(), 1) === undefined).toBe(pass === 0);
        await optimizer.step();
        optimizer.zeroGrad();
        if (pass === 0)
          await expect(accelerator.saveState('/nowhere')).rejects.toThrow('not the last');
      });
      weights.push(Number((await model.module.weight.data())[0]));
    }
    expect(optimizer.updates).toBe(1);
    expect(weights[0]).not.toBe(weights[1]);
  });

  it('refuses batches that ranks cannot split', () => {
    const group = { ...context.group, size: 2, rank: 0 };
    const mesh = { axes: [{ name: 'dp', size: 2 }], group: () => group, coordinate: () => 0 };
    const two = { ...context, worldSize: 2, group, mesh };
    const accelerator = new accelerate.Accelerator({ context: two, splitBatches: true });
    expect(() => accelerator.prepareDataLoader({ dataset, batchSize: 3 })).toThrow(
      '2 does not divide 3',
    );
    expect(accelerator.prepareDataLoader({ dataset, batchSize: 4 }).length).toBe(3);
  });

  it('runs a body on rank 0 before the others', async () => {
    const events: string[] = [];
    let arrived = 0;
    const all = Promise.withResolvers<void>();
    const barrier = (): Promise<void> => {
      if (++arrived === 2) all.resolve();
      return all.promise;
    };
    const ranks = [0, 1].map(
      (rank) =>
        new accelerate.Accelerator({
          context: { ...context, rank, group: { ...context.group, barrier } },
        }),
    );
    const bodies = ranks.toReversed().map((accelerator) =>
      accelerator.mainProcessFirst(async () => {
        events.push(`${accelerator.processIndex} begins`);
        await Promise.resolve();
        events.push(`${accelerator.processIndex} ends`);
      }),
    );
    await Promise.all(bodies);
    expect(events).toEqual(['0 begins', '0 ends', '1 begins', '1 ends']);
  });

  it('prints on rank 0 alone', () => {
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    new accelerate.Accelerator({ context: { ...context, rank: 1 } }).print('one');
    new accelerate.Accelerator({ context }).print('zero', 2);
    expect(log.mock.calls).toEqual([['zero', 2]]);
    log.mockRestore();
  });
});

describe('the file of accelerate config', () => {
  const head = 'compute_environment: LOCAL_MACHINE\nnum_processes: 4\nmachine_rank: 0\n';

  it.each([
    ['distributed_type: MULTI_CPU\nmixed_precision: bf16', { mixedPrecision: 'bf16' }],
    [
      "distributed_type: 'NO'\nmixed_precision: 'no'\ngradient_accumulation_steps: 3",
      { mixedPrecision: 'no', gradientAccumulationSteps: 3 },
    ],
  ])('with %j is the options of an Accelerator', async (text, options) => {
    expect(await accelerate.readConfig(await fileOf(`${head}${text}\n`))).toEqual(options);
  });

  it.each([
    [
      'distributed_type: FSDP\nfsdp_config:\n  fsdp_reshard_after_forward: true\n  fsdp_version: 2',
      'fsdp',
    ],
    ['distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: NO_SHARD', 'ddp'],
    ['distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3', 'zero-3'],
    ['distributed_type: DEEPSPEED', 'zero-2'],
    // What accelerate wrote before 0.20: an empty section for each.
    ['distributed_type: DEEPSPEED\nfsdp_config: {}', 'zero-2'],
  ])('with %j is the strategy %s', async (text, name) => {
    const { strategy } = await accelerate.readConfig(await fileOf(`${head}${text}\n`));
    expect(strategy?.name).toBe(name);
  });

  it.each([
    [
      'distributed_type: MULTI_GPU\nmixed_precisoin: bf16',
      'mixed_precisoin of',
      'Write mixed_precision',
    ],
    ['mixed_precision: bf16', 'distributed_type of', 'expected one of'],
    ['distributed_type: TPU', 'distributed_type of', 'expected one of'],
    ['distributed_type: MULTI_GPU\nmixed_precision: fp8', 'mixed_precision of', 'expected one of'],
    ['distributed_type: FSDP\nmixed_precision: fp16', 'mixed_precision fp16', 'Write bf16'],
    [
      'distributed_type: FSDP\nfsdp_config:\n  fsdp_reshard: true',
      'fsdp_config.fsdp_reshard of',
      'fsdp_reshard_after_forward',
    ],
    [
      'distributed_type: MEGATRON_LM\nmegatron_lm_config:\n  megatron_lm_tp_degree: 2',
      'megatron_lm_config',
      'Use dist.tensorParallel',
    ],
    [
      'distributed_type: FSDP\ndeepspeed_config:\n  zero_stage: 2',
      'deepspeed_config beside distributed_type FSDP',
      'Write distributed_type: DEEPSPEED, or remove deepspeed_config',
    ],
    ['distributed_type: [', 'default_config.yaml', 'Correct the file'],
  ])('with %j is refused with the path of the key', async (text, key, todo) => {
    const path = await fileOf(`${text}\n`);
    await expect(accelerate.readConfig(path)).rejects.toThrow(key);
    await expect(accelerate.readConfig(path)).rejects.toThrow(todo);
  });
});
