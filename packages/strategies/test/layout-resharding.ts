import { createMesh } from '@shardwise/collectives';
import {
  manualSeed,
  type MeshAxis,
  nn,
  optim,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  colwiseParallel,
  compose,
  ddp,
  fsdp,
  gridCrossEntropy,
  headParallel,
  ownRows,
  parallelize,
  pipeline,
  type RankGrid,
  rowwiseParallel,
  type ScheduleName,
  type StrategyWithLoss,
  tensorParallel,
  threeDimensional,
  twoAndAHalfDimensional,
  twoDimensional,
  vocabParallelEmbedding,
  zero,
  ZeroRedundancyOptimizer,
} from '@shardwise/strategies';
import { checkpoints } from 'shardwise';
import { batchOf, Gpt, GridGpt, sizes } from './ranks/grid-table.ts';
import { type Half, half, type RunHalf } from './resharding.ts';
import { groupsOf } from './strategy-resharding.ts';

/** A training: the rank's part of the model, and the loss of its part of a step's batch. */
interface Training {
  readonly model: nn.Module;
  readonly loss: (step: number) => Tensor;
}

interface LayoutCase {
  readonly axes: readonly MeshAxis[];
  readonly prepare: (model: Gpt) => Promise<Training>;
  /** Whether the optimizer shards whole parameters over `dp`. */
  readonly zeroRedundancy?: boolean;
}

const tp = tensorParallel({
  tokens: vocabParallelEmbedding(),
  'blocks.*.attention': headParallel({ numHeads: sizes.heads }),
  'blocks.*.up': colwiseParallel(),
  'blocks.*.down': rowwiseParallel(),
  head: colwiseParallel({ output: 'invariant' }),
});

function axesOf(ranks: Readonly<Record<string, number>>): MeshAxis[] {
  return Object.entries(ranks).map(([name, size]) => ({ name, size }));
}

/** A case in which each rank along `replicas` and `dp` has a part of the batch. */
function over(ranks: Readonly<Record<string, number>>, strategy: Strategy): LayoutCase {
  return {
    axes: axesOf(ranks),
    async prepare(model) {
      const parallel = await parallelize(model, strategy);
      const { mesh } = currentSession();
      const axes = mesh.axes.filter(({ name }) => name !== 'tp');
      const parts = axes.reduce((product, { size }) => product * size, 1);
      const part = axes.reduce((at, { name, size }) => at * size + mesh.coordinate(name), 0);
      const rows = sizes.batch / parts;
      const own = (x: Tensor): Tensor => x.slice(0, part * rows, (part + 1) * rows);
      return {
        model,
        loss: (step) => {
          const { ids, targets } = batchOf(step);
          return nn.functional.crossEntropy(parallel.forward(own(ids)), own(targets));
        },
      };
    },
  };
}

/** A case with stages along `pp`. Each rank along `dp` has a part of the batch. */
function inStages(
  ranks: Readonly<Record<string, number>>,
  around: Around,
  schedule: ScheduleName = '1f1b',
): LayoutCase {
  return {
    axes: axesOf(ranks),
    async prepare(model) {
      const loss = (logits: Tensor, targets: Tensor): Tensor =>
        nn.functional.crossEntropy(logits, targets);
      const parallel = await parallelize(
        model,
        around(pipeline({ schedule, microbatches: 2, loss })),
      );
      const { mesh } = currentSession();
      const { dp: parts = 1 } = ranks;
      const rows = sizes.batch / parts;
      const first = parts === 1 ? 0 : mesh.coordinate('dp') * rows;
      const own = (x: Tensor): Tensor => x.slice(0, first, first + rows);
      return {
        model,
        loss: (step) => {
          const { ids, targets } = batchOf(step);
          return parallel.forward(own(ids), own(targets));
        },
      };
    },
  };
}

type Stages = StrategyWithLoss<Tensor, [targets: Tensor]>;
type Around = (stages: Stages) => Stages;

function onGrid(ranks: Readonly<Record<string, number>>, gridOf: () => RankGrid): LayoutCase {
  return {
    axes: axesOf(ranks),
    async prepare(whole) {
      const grid = gridOf();
      const model = await GridGpt.from(whole, grid);
      return {
        model,
        loss: (step) => {
          const { ids, targets } = batchOf(step);
          const logits = model.forward(ownRows(ids, grid));
          return gridCrossEntropy(logits, ownRows(targets, grid.next), grid.next);
        },
      };
    },
  };
}

export const layouts = {
  'one rank': {
    axes: axesOf({ dp: 1 }),
    prepare: async (model) => ({ model, loss: (step) => lossOf(model, step) }),
  },
  DDP: over({ dp: 2 }, ddp()),
  FSDP: over({ dp: 4 }, fsdp()),
  TP: over({ tp: 2 }, tp),
  'TP × DDP': over({ dp: 2, tp: 2 }, compose(tp, ddp())),
  'TP × ZeroRedundancyOptimizer': {
    ...over({ dp: 2, tp: 2 }, compose(tp, ddp())),
    zeroRedundancy: true,
  },
  'TP × FSDP': over({ dp: 2, tp: 2 }, compose(tp, fsdp())),
  'TP × ZeRO-1': over({ dp: 2, tp: 2 }, compose(tp, zero({ stage: 1 }))),
  'TP × ZeRO-2': over({ dp: 2, tp: 2 }, compose(tp, zero({ stage: 2 }))),
  'TP × ZeRO-3': over({ dp: 2, tp: 2 }, compose(tp, zero({ stage: 3 }))),
  'TP × HSDP': over({ replicas: 2, dp: 1, tp: 2 }, compose(tp, fsdp({ replicas: 'replicas' }))),
  PP: inStages({ pp: 2 }, (stages) => stages),
  'PP in a V': inStages({ pp: 2 }, (stages) => stages, 'zbv'),
  'PP × DDP': inStages({ pp: 2, dp: 2 }, (stages) => compose(stages, ddp())),
  'PP × ZeRO-2': inStages({ pp: 2, dp: 2 }, (stages) => compose(stages, zero({ stage: 2 }))),
  'PP × ZeRO-3': inStages({ pp: 2, dp: 2 }, (stages) => compose(stages, zero({ stage: 3 }))),
  'PP × FSDP': inStages({ pp: 2, dp: 2 }, (stages) => compose(stages, fsdp())),
  'TP × PP': inStages({ pp: 2, tp: 2 }, (stages) => compose(tp, stages)),
  'TP × PP × ZeRO-1 on 8': inStages({ pp: 2, dp: 2, tp: 2 }, (stages) =>
    compose(tp, compose(stages, zero({ stage: 1 }))),
  ),
  '2D': onGrid({ row: 2, column: 2 }, twoDimensional),
  '2.5D': onGrid({ depth: 1, row: 2, column: 2 }, twoAndAHalfDimensional),
  'TP × HSDP on 8': over(
    { replicas: 2, dp: 2, tp: 2 },
    compose(tp, fsdp({ replicas: 'replicas' })),
  ),
  '2.5D on 8': onGrid({ depth: 2, row: 2, column: 2 }, twoAndAHalfDimensional),
  '3D on 8': onGrid({ input: 2, weight: 2, output: 2 }, threeDimensional),
} as const satisfies Record<string, LayoutCase>;

export type LayoutName = keyof typeof layouts;
export const layoutNames: readonly LayoutName[] = Object.keys(layouts).filter(
  (name): name is LayoutName => Object.hasOwn(layouts, name),
);

export function ranksOf(layout: LayoutName): number {
  const { axes }: LayoutCase = layouts[layout];
  return axes.reduce((product, { size }) => product * size, 1);
}

/** Returns the losses of this rank's part of each batch, by job. */
/** Runs half of a training on this rank. */
export const runHalf: RunHalf<{ readonly layout: LayoutName }> = async (
  { group, device },
  { layout },
  { from, to },
) => {
  const { axes, prepare, zeroRedundancy = false }: LayoutCase = layouts[layout];
  setRank({ device, mesh: await createMesh(group, axes) });
  // The seed differs, so that a value that was not loaded shows.
  manualSeed(from === undefined ? 0 : 1);
  const { model, loss } = await prepare(new Gpt());
  const groups = groupsOf(model, from !== undefined);
  const settings = { lr: from === undefined ? 0.01 : 1 };
  const optimizer = zeroRedundancy
    ? new ZeroRedundancyOptimizer(groups, optim.AdamW, settings)
    : new optim.AdamW(groups, settings);
  if (from !== undefined) {
    const checkpoint = await checkpoints.load(from);
    await checkpoints.loadModel(checkpoint, model);
    await checkpoints.loadOptimizer(checkpoint, model, optimizer);
  }
  if (to !== undefined) await checkpoints.save(initialOf(to), { step: 0, model }, { group });
  const losses = await train(optimizer, loss, from === undefined ? 0 : half, half);
  if (to !== undefined) await checkpoints.save(to, { step: half, model, optimizer }, { group });
  return losses;
};

/** Returns the checkpoint of the model before its first update. */
export function initialOf(folder: string): string {
  return `${folder}-initial`;
}

/** Runs both halves on one rank without a strategy or checkpoint. */
export async function trainAlone(): Promise<readonly number[]> {
  manualSeed(0);
  const model = new Gpt();
  const optimizer = new optim.AdamW(groupsOf(model, false), { lr: 0.01 });
  return train(optimizer, (step) => lossOf(model, step), 0, 2 * half);
}

function lossOf(model: Gpt, step: number): Tensor {
  const { ids, targets } = batchOf(step);
  return nn.functional.crossEntropy(model.forward(ids), targets);
}

async function train(
  optimizer: Pick<optim.AdamW, 'zeroGrad' | 'step'>,
  lossOfStep: (step: number) => Tensor,
  first: number,
  steps: number,
): Promise<number[]> {
  const losses: number[] = [];
  for (let step = first; step < first + steps; step++) {
    optimizer.zeroGrad();
    const loss = lossOfStep(step);
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  return losses;
}

export function halfOn(layout: LayoutName): Half<{ readonly layout: LayoutName }> {
  return { ranks: ranksOf(layout), job: { layout } };
}
