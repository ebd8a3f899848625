import {
  allReduce,
  manualSeed,
  type MeshAxis,
  noGrad,
  optim,
  type Tensor,
  tensor,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  OptimisticOptimizer,
  parallelize,
  pipeline,
  rowwiseParallel,
  type StrategyWithLoss,
  tensorParallel,
} from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { expect } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { beside } from './ranks/beside.ts';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';

interface Trained {
  /** The losses of each step, and of an evaluation. */
  losses: number[];
  /** The norms of a step's gradients before clipping. */
  norms: number[];
  /** The sum of squares of each whole parameter at the end. */
  parameters: number[];
  /** The number of parameters whose states this rank keeps. */
  held: number;
}

type Compositions = Record<
  string,
  {
    alone: Trained | null;
    parallel: Trained;
  }
>;

const rows = 8;
const steps = 3;

const layers = {
  'blocks.*.up': colwiseParallel(),
  'blocks.*.down': rowwiseParallel(),
};

export interface CompositionTask {
  readonly axes: readonly MeshAxis[];
  readonly names: readonly string[];
  /** The modules where the model is cut. Default: in the middle. */
  readonly cut?: readonly string[];
  /** Whether ranks make optimizer steps before they know the norm. Default: false. */
  readonly ahead?: boolean;
  /** Whether the head and the embedding share a weight. Default: false. */
  readonly tied?: boolean;
}

async function trainEach(
  { rank, mesh }: RankInThread,
  data: CompositionTask,
): Promise<Compositions> {
  const sizeOf = (axis: string): number => data.axes.find(({ name }) => name === axis)?.size ?? 1;
  const [shares, tp] = [sizeOf('dp'), sizeOf('tp')];
  const found: Compositions = {};
  for (const name of data.names) {
    const stages = pipeline({
      schedule: '1f1b',
      cut: data.cut ?? ['blocks.2'],
      microbatches: 2,
      loss: languageLoss,
    });
    const batch = beside[name];
    const inStages = batch === undefined ? stages : compose(stages, batch());
    const strategy = tp > 1 ? compose(tensorParallel(layers), inStages) : inStages;
    const alone = rank === 0 ? await train(null, 1, 0, { ...data, ahead: false }) : null;
    const place = shares > 1 ? mesh.coordinate('dp') : 0;
    found[name] = {
      alone,
      parallel: await train(strategy, shares, place, data),
    };
  }
  return found;
}

async function train(
  strategy: StrategyWithLoss<Tensor, [targets: Tensor]> | null,
  shares: number,
  place: number,
  { ahead = false, tied = false }: CompositionTask,
): Promise<Trained> {
  manualSeed(7);
  const inner = new Language({ tied });
  const model = strategy === null ? null : await parallelize(inner, strategy);
  const optimizer = new optim.AdamW(inner.parameters(), { lr: 0.01 });
  const optimistic = new OptimisticOptimizer(optimizer, { maxNorm: 0.5 });
  const passes: Tensor[] = [];
  const losses: number[] = [];
  const norms: number[] = [];
  const own = rows / shares;
  const lossOf = (batch: number): Tensor => {
    const { ids, targets } = languageBatch(batch, rows);
    const x = tensor(ids.slice(place * own, (place + 1) * own), 'i32');
    const y = tensor(targets.slice(place * own, (place + 1) * own), 'i32');
    return model === null ? languageLoss(inner.forward(x), y) : model.forward(x, y);
  };
  const backward = (batch: number): Tensor => {
    const loss = lossOf(batch);
    loss.backward();
    return loss;
  };
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    // A step has two batches. The gradients of the first one stay on this rank.
    if (model === null) backward(steps + step);
    else model.noSync(() => backward(steps + step));
    const loss = backward(step);
    if (ahead) {
      await optimistic.step();
      if (step === steps - 1) norms.push((await optimistic.verdict()).norm);
    } else {
      const norm = optim.clipGradNorm(inner.parameters(), 0.5);
      await optimizer.step();
      norms.push(await norm.item());
    }
    passes.push(loss);
    if (!ahead) losses.push(await meanOf(loss, shares).item());
  }
  if (ahead) for (const loss of passes) losses.push(await meanOf(loss, shares).item());
  losses.push(
    await meanOf(
      noGrad(() => lossOf(steps)),
      shares,
    ).item(),
  );
  const state = await inner.stateDict();
  const parameters = Object.values(state).map(({ bytes }) =>
    new Float32Array(bytes.slice().buffer).reduce((sum, value) => sum + value * value, 0),
  );
  const held = inner.parameters().filter((each) => optimizer.stateOf(each) !== undefined).length;
  return { losses, norms, parameters, held };
}

/** Returns the mean over the batches of a step. */
function meanOf(loss: Tensor, shares: number): Tensor {
  if (shares === 1) return loss;
  return noGrad(() => allReduce(loss.detach(), 'dp', { reduce: 'avg' }));
}

/** Trains with each composition on the ranks of a mesh. Expects the results of one rank. */
export async function expectComposed(task: CompositionTask): Promise<void> {
  const size = task.axes.reduce((product, axis) => product * axis.size, 1);
  const options = { axes: task.axes, ...onCpu };
  const ranks = await onRanks(size, (place) => trainEach(place, task), options);
  for (const name of task.names) {
    const alone = ranks[0]?.[name]?.alone ?? expect.fail(name);
    for (const rank of ranks) {
      const parallel = rank[name]?.parallel ?? expect.fail(name);
      for (const [step, loss] of alone.losses.entries()) {
        expect(parallel.losses[step], `${name}, step ${step}`).toBeCloseTo(loss, 4);
      }
      for (const [step, norm] of alone.norms.entries()) {
        expect(norm, `${name} clips in step ${step}`).toBeGreaterThan(0.5);
        const found = parallel.norms.at(step - alone.norms.length);
        if (found !== undefined)
          expect(found, `${name}, norm of step ${step}`).toBeCloseTo(norm, 4);
      }
      for (const [index, square] of alone.parameters.entries()) {
        expect(parallel.parameters[index], `${name}, parameter ${index}`).toBeCloseTo(square, 2);
      }
      expect(parallel.held, name).toBeLessThan(alone.held);
    }
  }
}
