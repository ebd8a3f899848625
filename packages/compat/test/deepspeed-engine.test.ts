import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deepspeed } from '@shardwise/compat';
import {
  checkpoints,
  data,
  fromArray,
  init,
  manualSeed,
  nn,
  noGrad,
  ones,
  optim,
  type RankContext,
  type Tensor,
} from 'shardwise';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';

let context: RankContext;
beforeAll(async () => {
  vi.spyOn(console, 'log').mockImplementation(() => {});
  context = await init();
});
afterAll(() => context.close());

const optimizer = { type: 'SGD', params: { lr: 0.1 } };
const config = {
  train_micro_batch_size_per_gpu: 4,
  gradient_accumulation_steps: 2,
  gradient_clipping: 0,
  optimizer,
};

function linear(): nn.Linear {
  manualSeed(1);
  return new nn.Linear(2, 1);
}

const lossOf = (output: Tensor): Tensor => output.square().mean();

async function train(
  engine: deepspeed.DeepSpeedEngine<nn.Linear, [Tensor], Tensor>,
  passes: number,
): Promise<number[]> {
  const losses: number[] = [];
  for (let pass = 0; pass < passes; pass++) {
    const loss = lossOf(engine.forward(ones([4, 2])));
    engine.backward(loss);
    await engine.step();
    losses.push(await loss.item());
  }
  return losses;
}

describe('an engine', () => {
  it('updates after as many passes as the configuration says', async () => {
    const { engine } = await deepspeed.initialize({ model: linear(), config, context });
    const boundaries: boolean[] = [];
    const applied: boolean[] = [];
    for (let pass = 0; pass < 4; pass++) {
      boundaries.push(engine.isGradientAccumulationBoundary());
      await train(engine, 1);
      applied.push(engine.wasStepApplied());
    }
    expect(boundaries).toEqual([false, true, false, true]);
    expect(applied).toEqual([false, true, false, true]);
    expect([engine.globalSteps, engine.microSteps, engine.globalSamples]).toEqual([2, 4, 16]);
    expect([engine.trainBatchSize, engine.trainMicroBatchSizePerGpu]).toEqual([8, 4]);
    expect(engine.gradientAccumulationSteps).toBe(2);
  });

  it('returns the loss divided by the number of passes', async () => {
    const { engine } = await deepspeed.initialize({ model: linear(), config, context });
    const loss = lossOf(engine.forward(ones([4, 2])));
    const share = engine.backward(loss);
    expect(await share.item()).toBeCloseTo((await loss.item()) / 2, 6);
  });

  it('refuses calls in another order', async () => {
    const { engine } = await deepspeed.initialize({ model: linear(), config, context });
    await expect(engine.step()).rejects.toThrow('no backward() since the latest one');
    engine.backward(lossOf(engine.forward(ones([4, 2]))));
    expect(() => engine.backward(ones([]))).toThrow('a backward() since the latest step()');
    await engine.step();
    await expect(engine.saveCheckpoint('/nowhere')).rejects.toThrow('1 of 2 passes of an update');
  });

  it('clips gradients to a norm of 1, as DeepSpeed does by default', async () => {
    const { engine } = await deepspeed.initialize({
      model: linear(),
      config: { train_batch_size: 4, optimizer: { type: 'SGD', params: { lr: 1 } } },
      context,
    });
    const before = await engine.module.weight.data();
    const loss = engine
      .forward(ones([4, 2]))
      .sum()
      .mul(100);
    engine.backward(loss);
    await engine.step();
    const after = await engine.module.weight.data();
    const bias = 1 / Math.sqrt(3);
    // The gradient is 400 in each of three directions.
    for (const [index, value] of before.entries()) {
      expect(Number(value) - Number(after[index])).toBeCloseTo(bias, 5);
    }
    expect(await engine.getGlobalGradNorm()?.item()).toBeCloseTo(400 * Math.sqrt(3), 2);
  });

  it('skips a step whose gradients are not finite, and does not advance the schedule', async () => {
    const { engine } = await deepspeed.initialize({
      model: linear(),
      config: {
        train_batch_size: 4,
        optimizer,
        fp16: { enabled: true, initial_scale_power: 4, hysteresis: 1 },
        scheduler: { type: 'WarmupLR', params: { warmup_min_lr: 0.5, warmup_max_lr: 1 } },
      },
      context,
    });
    const weights = await engine.module.weight.to('f32').data();
    engine.backward(
      engine
        .forward(ones([4, 2]))
        .sum()
        .mul(1e9),
    );
    await engine.step();
    expect([engine.skippedSteps, engine.globalSteps, engine.wasStepApplied()]).toEqual([
      1,
      1,
      false,
    ]);
    expect(engine.lossScale).toBe(8);
    expect(engine.scheduler?.stateDict()).toEqual({ lastBatchIteration: -1 });
    expect(await engine.module.weight.to('f32').data()).toEqual(weights);
  });

  it('takes an optimizer and a schedule of the script as functions', async () => {
    const made = await deepspeed.initialize({
      model: linear(),
      config: { train_batch_size: 4, zero_optimization: { stage: 2 } },
      optimizer: (parameters) => new optim.Lion([...parameters], { lr: 0.25 }),
      lrScheduler: (own) => new optim.LearningRateScheduler(own, (step) => 1 / (step + 1)),
      context,
    });
    expect(made.optimizer).toBeInstanceOf(optim.Lion);
    await train(made.engine, 1);
    expect(made.engine.getLr()).toEqual([0.125]);
  });

  it('gives the batches of the training data', async () => {
    const x = data.ndArray(
      Float32Array.from({ length: 20 }, (_, i) => i),
      [10, 2],
    );
    const { dataLoader } = await deepspeed.initialize({
      model: linear(),
      config: { ...config, dataloader_drop_last: true },
      trainingData: new data.ArrayDataset({ x }),
      context,
    });
    expect(dataLoader?.length).toBe(2);
    await expect(
      deepspeed.initialize({
        model: linear(),
        config: { optimizer },
        trainingData: new data.ArrayDataset({ x }),
        context,
      }),
    ).rejects.toThrow('neither train_batch_size nor train_micro_batch_size_per_gpu');
  });

  it('evaluates without an optimizer, and refuses to update', async () => {
    const { engine, optimizer: none } = await deepspeed.initialize({
      model: linear(),
      config: { train_batch_size: 4 },
      context,
    });
    expect(none).toBeUndefined();
    engine.eval();
    expect(engine.module.training).toBe(false);
    engine.backward(lossOf(engine.forward(ones([4, 2]))));
    await expect(engine.step()).rejects.toThrow('Write "optimizer" in the configuration');
  });
});

describe('checkpoints of an engine', () => {
  const stateful = {
    ...config,
    optimizer: { type: 'AdamW', params: { lr: 0.1 } },
    scheduler: { type: 'WarmupDecayLR', params: { warmup_num_steps: 2, total_num_steps: 9 } },
    fp16: { enabled: true, initial_scale_power: 6 },
  };

  it('continue with the losses of an uninterrupted run, in another stage', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'compat-'));
    const first = await deepspeed.initialize({ model: linear(), config: stateful, context });
    await train(first.engine, 6);
    await first.engine.saveCheckpoint(folder, { clientState: { epoch: 3 } });
    const expected = await train(first.engine, 6);

    const later = { ...stateful, zero_optimization: { stage: 2 } };
    const second = await deepspeed.initialize({
      model: new nn.Linear(2, 1),
      config: later,
      context,
    });
    const { clientState, path } = await second.engine.loadCheckpoint(folder);
    expect(clientState).toEqual({ epoch: 3 });
    expect(path.startsWith(folder)).toBe(true);
    expect(second.engine.globalSteps).toBe(3);
    expect(second.engine.getLr()).toEqual(second.engine.optimizer?.paramGroups.map(({ lr }) => lr));
    const found = await train(second.engine, 6);
    for (const [index, loss] of expected.entries()) expect(found[index]).toBeCloseTo(loss, 6);
  });

  it('are found by a tag', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'compat-'));
    const { engine } = await deepspeed.initialize({ model: linear(), config, context });
    await engine.saveCheckpoint(folder, { tag: 'best' });
    await train(engine, 2);
    await engine.loadCheckpoint(folder, { tag: 'best' });
    expect(engine.globalSteps).toBe(0);
    await expect(engine.loadCheckpoint(folder, { tag: 'other' })).rejects.toThrow('other');
  });

  it('have the parameters in 16 bits in a file of their own', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'compat-'));
    const { engine } = await deepspeed.initialize({
      model: linear(),
      config: { ...config, bf16: { enabled: true }, zero_optimization: { stage: 3 } },
      context,
    });
    const path = await engine.save16bitModel(folder);
    const tensors = await checkpoints.loadTensorFile(path);
    expect(Object.entries(tensors).map(([name, { dtype, shape }]) => [name, dtype, shape])).toEqual(
      [
        ['bias', 'bf16', [1]],
        ['weight', 'bf16', [1, 2]],
      ],
    );
  });

  it('are not written in f16 if one of them would be infinite', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'compat-'));
    const model = linear();
    const { engine } = await deepspeed.initialize({
      model,
      config: { ...config, fp16: { enabled: true, initial_scale_power: 4 } },
      context,
    });
    noGrad(() => model.weight.assign(model.weight.mul(0).add(70_000)));
    await expect(engine.save16bitModel(folder)).rejects.toThrow(
      /save16bitModel with 'weight' in f16.*infinite/s,
    );
  });
});

describe('the example of the documentation', () => {
  it('trains on batches of a loader', async () => {
    const x = data.ndArray(
      Float32Array.from({ length: 64 }, (_, i) => i / 32 - 1),
      [32, 2],
    );
    const { engine, dataLoader } = await deepspeed.initialize({
      model: linear(),
      config: { train_micro_batch_size_per_gpu: 8, optimizer },
      trainingData: new data.ArrayDataset({ x }),
      context,
    });
    if (dataLoader === undefined) throw new RangeError('a loader');
    const losses: number[] = [];
    for (let epoch = 0; epoch < 2; epoch++) {
      for await (const batch of dataLoader) {
        const loss = lossOf(engine.forward(fromArray(batch.x)));
        engine.backward(loss);
        await engine.step();
        losses.push(await loss.item());
      }
    }
    expect(losses).toHaveLength(8);
    expect(losses.at(-1)).toBeLessThan(losses[0] ?? 0);
  });
});
