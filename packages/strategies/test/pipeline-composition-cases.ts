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
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { oncePerKey } from './as-one-rank.ts';
import { beside } from './ranks/beside.ts';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';
import { testMs } from './time-limits.ts';

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

/** The strategy of a task beside the one of this name, or in stages alone. */
function strategyOf(
  { axes, cut = ['blocks.2'] }: CompositionTask,
  name: string,
): StrategyWithLoss<Tensor, [targets: Tensor]> {
  const stages = pipeline({ schedule: '1f1b', cut, microbatches: 2, loss: languageLoss });
  const batch = beside[name];
  const inStages = batch === undefined ? stages : compose(stages, batch());
  const hasParts = axes.some((axis) => axis.name === 'tp');
  return hasParts ? compose(tensorParallel(layers), inStages) : inStages;
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

/** What one rank has trained. It knows the whole norm before each step. */
const trainedAlone = oncePerKey(
  (task: CompositionTask) => train(null, 1, 0, { ...task, ahead: false }),
  onCpu,
  ({ tied = false }) => tied,
);

/** Trains with a composition on the ranks of a mesh. Expects the results of one rank. */
async function expectComposed(task: CompositionTask, name: string): Promise<void> {
  const sizeOf = (axis: string): number => task.axes.find((each) => each.name === axis)?.size ?? 1;
  const size = task.axes.reduce((product, axis) => product * axis.size, 1);
  const alone = await trainedAlone(task);
  const ranks = await onRanks(
    size,
    ({ mesh }) => {
      const shares = sizeOf('dp');
      return train(strategyOf(task, name), shares, shares > 1 ? mesh.coordinate('dp') : 0, task);
    },
    { axes: task.axes, ...onCpu },
  );
  for (const { losses, norms, parameters, held } of ranks) {
    for (const [step, loss] of alone.losses.entries()) {
      expect(losses[step], `step ${step}`).toBeCloseTo(loss, 4);
    }
    for (const [step, norm] of alone.norms.entries()) {
      expect(norm, `clips in step ${step}`).toBeGreaterThan(0.5);
      const found = norms.at(step - alone.norms.length);
      if (found !== undefined) expect(found, `norm of step ${step}`).toBeCloseTo(norm, 4);
    }
    for (const [index, square] of alone.parameters.entries()) {
      expect(parameters[index], `parameter ${index}`).toBeCloseTo(square, 2);
    }
    expect(held).toBeLessThan(alone.held);
  }
}

/** Tests the compositions of tasks, which are `what`, such as a pipeline composed with something. */
export function testCompositions(
  what: string,
  tasks: Readonly<Record<string, CompositionTask>>,
): void {
  const rows = Object.entries(tasks).flatMap(([of, task]) =>
    task.names.map((name) => [of, name, task] as const),
  );
  it.each(rows)(`${what} %s trains as one rank: %s`, { timeout: testMs }, (_, name, task) =>
    expectComposed(task, name),
  );
}
