import {
  manualSeed,
  type MeshAxis,
  nn,
  noGrad,
  optim,
  type Tensor,
  tensor,
  zeros,
} from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  onEveryRank,
  OptimisticOptimizer,
  parallelize,
  pipeline,
  rowwiseParallel,
  type ScheduleName,
  type StrategyWithLoss,
  tensorParallel,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect } from 'vitest';
import { stateOf, valuesOf } from '../../../test/support/model-values.ts';
import { oncePerKey } from './as-one-rank.ts';
import { beside } from './ranks/beside.ts';

/** The target of each row of a batch: a class, or one that is ignored. */
type Targets = readonly number[];

export interface EmptyTask {
  readonly schedule: ScheduleName;
  readonly stages: number;
  readonly microbatches: number;
  readonly loss: keyof typeof lossFunctions;
  /** The batches on which the ranks of each place on `dp` train, one after the other. */
  readonly shares: readonly (readonly Targets[])[];
  /** The strategy on `dp`, by its name in beside.ts. Default: none. */
  readonly beside?: string;
  /** Whether ranks make optimizer steps before they know the norm, which is never clipped. Default: false. */
  readonly ahead?: boolean;
  /** Whether ranks of `tp` have parts of the layers. Default: false. */
  readonly inParts?: boolean;
  /** What the rows of ignored targets consist of. Default: numbers. */
  readonly padding?: number;
}

interface Trained {
  /** The losses of this rank's batches, each before its step, and all of them after all steps. */
  losses: number[];
  evaluated: number[];
  /** The outputs of this rank's last batch. */
  outputs: number[];
  /** The parameters after all steps of SGD. */
  parameters: number[];
}

interface Compared {
  readonly piped: Trained;
  readonly alone: Trained;
}

export const ignored = -100;
const { crossEntropy } = nn.functional;
const isCounted = (targets: Tensor): Tensor => targets.ne(ignored).to('f32');
const lossesOf = (output: Tensor, targets: Tensor): Tensor =>
  crossEntropy(output, targets, { reduction: 'none' });

/** Losses of a microbatch with their weights. All of them are the mean or the sum over targets that are not ignored. */
const lossFunctions = {
  crossEntropy: {
    of: (output: Tensor, targets: Tensor) => crossEntropy(output, targets),
    weight: (_: unknown, targets: Tensor) => isCounted(targets).sum(),
  },
  'a masked mean': {
    of: (output: Tensor, targets: Tensor) => {
      const mask = isCounted(targets);
      return mask.mul(lossesOf(output, targets)).sum().div(mask.sum());
    },
    weight: (_: unknown, targets: Tensor) => isCounted(targets).sum().to('i32'),
  },
  'a mean of at least one': {
    of: (output: Tensor, targets: Tensor) =>
      lossesOf(output, targets).sum().div(isCounted(targets).sum().clamp(1)),
    weight: (_: unknown, targets: Tensor) => isCounted(targets).sum(),
  },
  'a mean over rows': {
    of: (output: Tensor, targets: Tensor) => lossesOf(output, targets).mean(),
    weight: 'rows',
  },
  'a mean by the number of rows': {
    of: (output: Tensor, targets: Tensor) => lossesOf(output, targets).mean(),
    weight: (_: unknown, targets: Tensor) => targets.shape[0] ?? 0,
  },
  'a sum': {
    of: (output: Tensor, targets: Tensor) => lossesOf(output, targets).sum(),
    weight: 'sum',
  },
} as const;

/** The inputs of rows. Shape: targets [B] -> [B, 2]. */
function rowsOf(targets: Targets, padding?: number): Tensor {
  if (targets.length === 0) return zeros([0, 2]);
  const value = (row: number, at: number): number => ((row * 5 + at * 3) % 7) / 4 - 0.75;
  return tensor(
    targets.map((target, row) =>
      [0, 1].map((at) => (target === ignored ? (padding ?? value(row, at)) : value(row, at))),
    ),
  );
}

function classesOf(targets: Targets): Tensor {
  return targets.length === 0 ? zeros([0]).to('i32') : tensor([...targets], 'i32');
}

/** Two layers for each stage. Shape: [B, 2] -> [B, 3]. */
function layers(stages: number): nn.Sequential {
  manualSeed(1);
  const widths = [2, ...Array.from({ length: 2 * stages - 1 }, () => 4), 3];
  return new nn.Sequential(
    ...widths.slice(1).map((width, at) => new nn.Linear(widths[at] ?? 0, width)),
  );
}

/** Trains in the stages of one rank, and without stages with the rows that count. */
export async function compare(task: EmptyTask): Promise<Compared> {
  return { alone: await alone(task, 0), piped: await piped(task, 0) };
}

const lr = 0.25;

async function alone({ stages, loss: name, shares }: EmptyTask, place: number): Promise<Trained> {
  const model = layers(stages);
  const optimizer = new optim.SGD(model.parameters(), { lr });
  const losses: number[] = [];
  const own = shares[place] ?? [];
  const lossOf = (targets: Targets): Tensor => {
    const hasNone = countedOf(targets).length === 0;
    // If a batch has none, all rows are left, and the loss is what the loss function makes of them.
    const chosen = [...targets.keys()].filter((row) => hasNone || targets[row] !== ignored);
    const [x, y] = [rowsOf(targets), classesOf(targets)];
    if (chosen.length === 0) return lossFunctions[name].of(model.forward(x), y);
    const index = tensor(chosen, 'i32');
    return lossFunctions[name].of(model.forward(x.indexSelect(0, index)), y.indexSelect(0, index));
  };
  for (const [step, targets] of own.entries()) {
    losses.push(await noGrad(() => lossOf(targets)).item());
    const all = shares.flatMap((each) => each.slice(step, step + 1));
    const counting = all.filter((each) => countedOf(each).length > 0);
    if (counting.length === 0) continue;
    optimizer.zeroGrad();
    for (const each of counting) lossOf(each).div(all.length).backward();
    await optimizer.step();
  }
  const evaluated: number[] = [];
  for (const targets of own) evaluated.push(await noGrad(() => lossOf(targets)).item());
  const outputs = await valuesOf(noGrad(() => model.forward(rowsOf(own.at(-1) ?? []))));
  return { losses, evaluated, outputs, parameters: await parametersOf(model) };
}

function countedOf(targets: Targets): Targets {
  return targets.filter((target) => target !== ignored);
}

async function piped(task: EmptyTask, place: number): Promise<Trained> {
  const { stages, shares, padding, ahead = false } = task;
  const model = await parallelize(layers(stages), strategyOf(task));
  const sgd = new optim.SGD(model.module.parameters(), { lr });
  const optimizer = ahead ? new OptimisticOptimizer(sgd, { maxNorm: 1e6 }) : sgd;
  const passes: Tensor[] = [];
  const own = shares[place] ?? [];
  for (const targets of own) {
    sgd.zeroGrad();
    const loss = model.forward(rowsOf(targets, padding), classesOf(targets));
    loss.backward();
    await optimizer.step();
    passes.push(loss);
  }
  const losses: number[] = [];
  for (const loss of passes) losses.push(await loss.item());
  const evaluated: number[] = [];
  for (const targets of own) {
    const loss = noGrad(() => model.forward(rowsOf(targets, padding), classesOf(targets)));
    evaluated.push(await loss.item());
  }

  const output = noGrad(() => model.forward(rowsOf(own.at(-1) ?? [])));
  const outputs = await valuesOf(await onEveryRank(output));
  return { losses, evaluated, outputs, parameters: await parametersOf(model.module) };
}

function strategyOf(task: EmptyTask): StrategyWithLoss<Tensor, [targets: Tensor]> {
  const { schedule, stages, microbatches, loss: name, inParts = false } = task;
  const { of, weight } = lossFunctions[name];
  const inStages = pipeline({
    schedule,
    microbatches,
    cut: Array.from({ length: stages - 1 }, (_, stage) => `${2 * stage + 2}`),
    loss: (output: Tensor, targets: Tensor) => of(output, targets),
    weight:
      typeof weight === 'string'
        ? weight
        : (input: unknown, targets: unknown) => Reflect.apply(weight, undefined, [input, targets]),
  });
  const batch = task.beside === undefined ? undefined : beside[task.beside];
  const inShares = batch === undefined ? inStages : compose(inStages, batch());
  if (!inParts) return inShares;
  const styles = Array.from({ length: 2 * stages }, (_, layer) => [
    `${layer}`,
    layer % 2 === 0 ? colwiseParallel() : rowwiseParallel(),
  ]);
  return compose(tensorParallel(Object.fromEntries(styles)), inShares);
}

async function parametersOf(model: nn.Module): Promise<number[]> {
  return Object.values(await stateOf(model)).flat();
}

/** What one rank trains on each share. It knows neither schedules nor meshes. */
const trainedAlone = oncePerKey(
  async (task: EmptyTask) => {
    const ofShares: Trained[] = [];
    for (const place of task.shares.keys()) ofShares.push(await alone(task, place));
    return ofShares;
  },
  {},
  ({ stages, loss, shares }) => JSON.stringify([stages, loss, shares]),
);

/** Trains on the ranks of a mesh. Expects on each of them what one rank computes with the rows that count. */
export async function expectOnMesh(axes: readonly MeshAxis[], task: EmptyTask): Promise<void> {
  const expected = await trainedAlone(task);
  const size = axes.reduce((product, axis) => product * axis.size, 1);
  const hasShares = axes.some(({ name }) => name === 'dp');
  await onRanks(
    size,
    async ({ mesh }) => {
      const place = hasShares ? mesh.coordinate('dp') : 0;
      const ofShare = expected[place] ?? expect.fail(`no share ${place}`);
      expectAsAlone({ piped: await piped(task, place), alone: ofShare });
    },
    { axes },
  );
}

/** Expects what one rank computes with the rows that count. */
export function expectAsAlone({ piped, alone }: Compared): void {
  expect(alone.losses.length).toBeGreaterThan(0);
  expect(alone.parameters.length).toBeGreaterThan(20);
  for (const values of [alone.parameters, alone.outputs]) {
    expect(values.filter(Number.isNaN)).toEqual([]);
  }
  for (const key of ['losses', 'evaluated', 'outputs', 'parameters'] as const) {
    expect(piped[key], key).toHaveLength(alone[key].length);
    for (const [index, expected] of alone[key].entries()) {
      const value = piped[key][index];
      if (Number.isNaN(expected)) expect(value, `${key} ${index}`).toBeNaN();
      else expect(value, `${key} ${index}`).toBeCloseTo(expected, 4);
    }
  }
}
