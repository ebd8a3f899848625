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
  type ShardwiseError,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { explain, parallelize, planFor } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { checkpoints } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { failureOf } from './failure-of.ts';

interface Observations {
  explained: string;
  /**
   * The weight, the running mean and the loss of the next step, as they were saved. `loaded` has them as they were
   * loaded.
   */
  saved: number[];
  loaded: number[];
  /**
   * The error of a save that does not declare that the ranks differ, in parameters. `unsaidStates` is the same if only
   * optimizer states differ.
   */
  unsaid: ShardwiseError | null;
  unsaidStates: ShardwiseError | null;
  /**
   * The errors of loading the model, of loading the optimizer, and of an export, on another number of ranks or on none.
   */
  model: ShardwiseError | null;
  optimizer: ShardwiseError | null;
  exported: ShardwiseError | null;
}

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

async function observe(
  { rank, group }: RankInThread,
  directory: string,
  saves: boolean,
): Promise<Observations> {
  const trainings = await Promise.all(
    [true, true, false, false].map((says) => begin(independent(says))),
  );
  const [first, second, unmarked, equal] = trainings;
  if (first === undefined || second === undefined) throw new RangeError('two trainings');
  if (unmarked === undefined || equal === undefined) throw new RangeError('two others');
  const folder = `${directory}/varying`;
  const found: Observations = {
    explained: explain(planFor(new Net(), independent(true))),
    saved: [],
    loaded: [],
    unsaid: null,
    unsaidStates: null,
    model: null,
    optimizer: null,
    exported: null,
  };
  if (saves) {
    await train(first, rank, 3);
    const { model, optimizer } = first;
    await checkpoints.save(folder, { step: 3, model, optimizer }, { group });
    found.saved = await next(first, rank);
    await train(unmarked, rank, 3);
    found.unsaid = await failureOf(
      checkpoints.save(`${directory}/unsaid`, { step: 3, ...unmarked }, { group }),
    );
    // The parameters are made equal again, while the optimizer's states differ.
    await train(equal, rank, 3);
    for (const parameter of equal.model.parameters()) parameter.assign(ones(parameter.shape));
    found.unsaidStates = await failureOf(
      checkpoints.save(`${directory}/states`, { step: 3, ...equal }, { group }),
    );
  }
  const checkpoint = await checkpoints.load(folder);
  found.model = await failureOf(checkpoints.loadModel(checkpoint, second.model));
  found.optimizer = await failureOf(
    checkpoints.loadOptimizer(checkpoint, second.model, second.optimizer),
  );
  found.exported = await failureOf(
    checkpoints.exportModel(folder, `${directory}/rank-${rank}.safetensors`),
  );
  if (saves) found.loaded = await next(second, rank);
  await currentSession().realize([]);
  return found;
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

async function next(training: Training, rank: number): Promise<number[]> {
  const { model } = training;
  const values = [model.weight, ...model.norm.namedBuffers().map(([, buffer]) => buffer)];
  const numbers: number[] = [];
  for (const each of values) numbers.push(...Array.from(await each.data(), Number));
  return [...numbers, await (await train(training, rank, 1)).item()];
}

describe('a model of which each rank has another one', () => {
  let directory = '';
  let two: readonly Observations[] = [];
  let three: readonly Observations[] = [];

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shardwise-varying-'));
    two = await onRanks(2, (rank) => observe(rank, directory, true));
    three = await onRanks(3, (rank) => observe(rank, directory, false));
  });

  afterAll(() => rm(directory, { recursive: true, force: true }));

  it('a model of which each rank has another one is explained as such', () => {
    for (const { explained } of two) {
      expect(explained).toMatch(/weight +f32 +\[1, 2, 1, 1\] +varying\(dp\) +varying\(dp\)/);
    }
  });

  it('a model of which each rank has another one is saved and loaded with parameters, buffers and states of each rank', () => {
    const [first, second] = two;
    expect(first?.saved).toHaveLength(8);
    expect(first?.saved).not.toEqual(second?.saved);
    for (const { model, optimizer, saved, loaded } of two) {
      expect([model, optimizer]).toEqual([null, null]);
      expect(loaded).toEqual(saved);
    }
  });

  it('a model of which each rank has another one is refused on another number of ranks, and as one model', () => {
    for (const { model, optimizer, exported } of three) {
      expect(model?.code).toBe('CHECKPOINT');
      expect(model?.message).toContain("weight (each of 2 ranks of 'dp' saved its own)");
      expect(model?.message).toContain("norm.running_mean (each of 2 ranks of 'dp' saved its own)");
      expect(optimizer?.message).toContain(
        "weight.exp_avg (each of 2 ranks of 'dp' saved its own)",
      );
      expect(exported?.message).toMatch(
        /weight: each of 2 ranks of 'dp' saved its own\. Average the parameters/,
      );
    }
  });

  it('a model of which each rank has another one is not saved as if the ranks had the same, nor are its states', () => {
    for (const { unsaid, unsaidStates } of two) {
      expect(unsaid?.code).toBe('CHECKPOINT');
      expect(unsaid?.message).toMatch(
        /ranks that are to have the same values have others, as ranks 0 and 1, of weight, .*exp_avg.*tensor\.markVarying/,
      );
      expect(unsaidStates?.message).toMatch(/of weight\.exp_avg, weight\.exp_avg_sq/);
    }
  });
});
