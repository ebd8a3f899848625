import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  fromData,
  type Layout,
  manualSeed,
  nn,
  ones,
  optim,
  type Plan,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { explain, parallelize, planFor } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { failureOf } from './failure-of.ts';

class Net extends nn.Module {
  readonly weight = new nn.Parameter(Float32Array.of(0.5, -0.5), [1, 2, 1, 1]);
  readonly norm = new nn.BatchNorm2d(2);

  /** Shape: x [B, 2, 1, 1] -> [B, 2, 1, 1]. */
  forward(x: Tensor): Tensor {
    return this.norm.forward(x.mul(this.weight)).add(this.weight);
  }
}

/** A strategy with which each rank trains a model of its own. */
function independent(says: boolean): Strategy {
  return {
    specificationVersion: 1,
    name: 'independent',
    plan: ({ parameters }, axes): Plan => ({
      strategy: 'independent',
      axes,
      batch: { dims: [axes.map(({ name }) => name)], partial: [] },
      parameters: parameters.map((parameter) => {
        const whole: Layout = { dims: parameter.shape.map(() => []), partial: [] };
        const layout = says ? { ...whole, varying: axes.map(({ name }) => name) } : whole;
        return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
      }),
      steps: [],
    }),
  };
}

type Training = Awaited<ReturnType<typeof begin>>;

async function begin(strategy: Strategy) {
  manualSeed(0);
  const model = new Net();
  await parallelize(model, strategy);
  return { model, optimizer: new optim.AdamW(model.parameters(), { lr: 0.1 }) };
}

async function train(training: Training, rank: number, steps: number): Promise<Tensor> {
  const { model, optimizer } = training;
  let loss = ones([]);
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const values = Float32Array.from({ length: 6 }, (_, i) => Math.sin(i + 5 * rank + step));
    const x = fromData(values, [3, 2, 1, 1], 'f32');
    loss = model.forward(x).square().sum();
    loss.backward();
    await optimizer.step();
  }
  return loss;
}

/** Returns the weight, the running statistics and the loss of the next step. */
async function next(training: Training, rank: number): Promise<number[]> {
  const { weight, norm } = training.model;
  const numbers = await valuesOf(weight);
  for (const [, buffer] of norm.namedBuffers()) numbers.push(...(await valuesOf(buffer)));
  return [...numbers, await (await train(training, rank, 1)).item()];
}

describe('a model of which each rank has another one', () => {
  let directory = '';

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shardwise-varying-'));
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('a model of which each rank has another one is explained as such', () =>
    onRanks(2, () => {
      expect(explain(planFor(new Net(), independent(true)))).toMatch(
        /weight +f32 +\[1, 2, 1, 1\] +varying\(dp\) +varying\(dp\)/,
      );
    }));

  it('a model of which each rank has another one is saved and loaded with parameters, buffers and states of each rank, and is refused on another number of ranks, and as one model', async () => {
    const folder = join(directory, 'varying');
    const [first, second] = await onRanks(2, async ({ rank, group }) => {
      const [training, other] = [await begin(independent(true)), await begin(independent(true))];
      await train(training, rank, 3);
      await checkpoints.save(folder, { step: 3, ...training }, { group });
      const saved = await next(training, rank);
      const checkpoint = await checkpoints.load(folder);
      await checkpoints.loadModel(checkpoint, other.model);
      await checkpoints.loadOptimizer(checkpoint, other.model, other.optimizer);
      expect(await next(other, rank)).toEqual(saved);
      return saved;
    });
    expect(first).toHaveLength(8);
    expect(first).not.toEqual(second);

    await onRanks(3, async ({ rank }) => {
      const { model, optimizer } = await begin(independent(true));
      const checkpoint = await checkpoints.load(folder);
      const ofModel = await failureOf(checkpoints.loadModel(checkpoint, model));
      expect(ofModel?.code).toBe('CHECKPOINT');
      expect(ofModel?.message).toContain("weight (each of 2 ranks of 'dp' saved its own)");
      expect(ofModel?.message).toContain(
        "norm.running_mean (each of 2 ranks of 'dp' saved its own)",
      );
      await expect(checkpoints.loadOptimizer(checkpoint, model, optimizer)).rejects.toThrow(
        "weight.exp_avg (each of 2 ranks of 'dp' saved its own)",
      );
      await expect(
        checkpoints.exportModel(folder, join(directory, `rank-${rank}.safetensors`)),
      ).rejects.toThrow(/weight: each of 2 ranks of 'dp' saved its own\. Average the parameters/);
    });
  });

  it('a model of which each rank has another one is not saved as if the ranks had the same, nor are its states', () =>
    onRanks(2, async ({ rank, group }) => {
      const training = await begin(independent(false));
      const { model } = training;
      const save = (): Promise<unknown> =>
        checkpoints.save(join(directory, 'unsaid'), { step: 3, ...training }, { group });
      await train(training, rank, 3);
      const unsaid = await failureOf(save());
      expect(unsaid?.code).toBe('CHECKPOINT');
      expect(unsaid?.message).toMatch(
        /ranks that are to have the same values have others, as ranks 0 and 1, of weight, .*exp_avg.*tensor\.markVarying/,
      );
      // The parameters are made equal again, while the optimizer's states differ.
      for (const parameter of model.parameters()) parameter.assign(ones(parameter.shape));
      await expect(save()).rejects.toThrow(/of weight\.exp_avg, weight\.exp_avg_sq/);
    }));
});
