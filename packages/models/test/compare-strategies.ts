import {
  allReduce,
  fromData,
  type Mesh,
  type MeshAxis,
  noGrad,
  optim,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import type { PretrainedModel } from '@shardwise/models';
import {
  compose,
  contextParallel,
  ddp,
  expertParallel,
  fsdp,
  onEveryRank,
  parallelize,
  pipeline,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { build, decoderCases } from './decoder-cases.ts';
import { summary, tokens } from './golden/formulas.ts';

/** The strategies, none of which is told anything of the model. */
const strategies: Readonly<Record<string, () => Strategy>> = {
  ddp: () => ddp(),
  'zero-3': () => zero({ stage: 3 }),
  fsdp: () => fsdp(),
  tp: () => tensorParallel(),
  pp: () => pipeline({ microbatches: 2 }),
  ep: () => expertParallel(),
  'tp × fsdp': () => compose(tensorParallel(), fsdp()),
  'cp ring': () => compose(contextParallel(), ddp({ axis: 'cp' })),
  'cp allGather': () => compose(contextParallel({ method: 'allGather' }), fsdp({ axis: 'cp' })),
  'cp ulysses': () =>
    compose(contextParallel({ method: 'ulysses' }), zero({ stage: 2, axis: 'cp' })),
  'tp × cp': () => compose(tensorParallel(), contextParallel(), ddp({ axis: 'cp' })),
  'dp × cp': () => compose(contextParallel(), fsdp({ axis: 'dp', replicas: 'cp' })),
  'dp × cp ulysses': () =>
    compose(contextParallel({ method: 'ulysses' }), zero({ stage: 2, axis: 'dp', replicas: 'cp' })),
  'tp × cp ulysses': () =>
    compose(tensorParallel(), contextParallel({ method: 'ulysses' }), fsdp({ axis: 'cp' })),
  'pp × cp': () => compose(pipeline({ microbatches: 2 }), contextParallel(), ddp({ axis: 'cp' })),
  'cp with experts': () => compose(expertParallel({ axis: 'cp' }), contextParallel()),
  'pp × cp with experts': () =>
    compose(expertParallel({ axis: 'cp' }), pipeline({ microbatches: 2 }), contextParallel()),
};

interface StrategyTask {
  readonly axes: readonly MeshAxis[];
  readonly strategies: readonly string[];
  /** Whether rows are packed documents of several lengths, which differ from row to row. */
  readonly isPacked: boolean;
  /** AdamW makes whole steps of gradients that are only rounding errors, as weights of rarely chosen experts have. */
  readonly optimizer: 'AdamW' | 'SGD';
}

/** The losses of the steps, and the summary of the logits after them. */
interface Trained {
  losses: number[];
  logits: number[];
}

const ROWS = 4;
const LENGTH = 12;
const STEPS = 2;

/** How a model is trained on one of the ranks of a world, or on one rank alone. */
function trainingOf(
  { axes, isPacked, optimizer }: StrategyTask,
  mesh: Mesh | null,
  strategy: Strategy | null,
): Training {
  const divided = axes.find(({ name }) => name === 'dp' || name === 'ep');
  const shares = divided?.size ?? 1;
  return {
    strategy,
    shares: mesh === null ? 1 : shares,
    place: mesh === null || divided === undefined ? 0 : mesh.coordinate(divided.name),
    isPipeline: mesh !== null && axes.some((axis) => axis.name === 'pp'),
    hasEqualParts: shares > 1,
    axis: divided?.name ?? '',
    documents: isPacked ? packed() : undefined,
    optimizer,
  };
}

interface Training {
  readonly strategy: Strategy | null;
  /** The number of parts of the batch, and that of this rank. */
  readonly shares: number;
  readonly place: number;
  readonly isPipeline: boolean;
  /** Whether both halves of the batch have as many labels. */
  readonly hasEqualParts: boolean;
  /** The axis whose ranks have the parts. */
  readonly axis: string;
  /** Shape: i32 [ROWS, LENGTH]. Undefined: each row is one document. */
  readonly documents: Tensor | undefined;
  readonly optimizer: StrategyTask['optimizer'];
}

/** Shape: -> i32 [ROWS, LENGTH]. */
function packed(): Tensor {
  const lengths = [[5, 7], [1, 2, 9], [12], [4, 4, 4]];
  const numbers = lengths.flatMap((row) =>
    row.flatMap((length, document) => Array<number>(length).fill(document)),
  );
  return fromData(Int32Array.from(numbers), [ROWS, LENGTH], 'i32');
}

async function train(inner: PretrainedModel, training: Training): Promise<Trained> {
  const { strategy, shares, place, isPipeline, hasEqualParts, axis, documents } = training;
  const model = strategy === null ? inner : await parallelize(inner, strategy);
  const optimizer =
    training.optimizer === 'AdamW'
      ? new optim.AdamW(inner.parameters(), { lr: 1e-2 })
      : new optim.SGD(inner.parameters(), { lr: 0.1 });
  const rows = ROWS / shares;
  const own = (x: Tensor): Tensor => x.slice(0, place * rows, (place + 1) * rows);
  const call = documents === undefined ? {} : { documents: own(documents) };
  const losses: number[] = [];
  for (let step = 0; step < STEPS; step++) {
    const ids = tokens(`step ${step}`, [ROWS, LENGTH]);
    const values = Int32Array.from(await ids.data(), Number);
    // Microbatches of a pipeline have different numbers of labels. Ranks with a part of the batch have the same.
    values.fill(-100, 0, 7);
    if (hasEqualParts) values.fill(-100, 2 * LENGTH, 2 * LENGTH + 7);
    const labels = fromData(values, ids.shape, 'i32');
    optimizer.zeroGrad();
    const loss = model.forward(own(ids), { ...call, labels: own(labels) });
    loss.backward();
    const sum = shares > 1 ? allReduce(loss.detach(), axis) : loss.detach();
    await optimizer.step();
    losses.push((await sum.item()) / shares);
  }
  const evaluated = noGrad(() => model.forward(own(tokens('ids', [ROWS, LENGTH])), call));
  const logits = await (isPipeline ? await onEveryRank(evaluated) : evaluated).data();
  const [norm, product] = summary('logits', logits);
  return { losses, logits: [norm, product] };
}

const axes = {
  dp: { name: 'dp', size: 2 },
  tp: { name: 'tp', size: 2 },
  pp: { name: 'pp', size: 2 },
  ep: { name: 'ep', size: 2 },
  cp: { name: 'cp', size: 2 },
};

/** Which strategies run on which mesh. */
const worlds: readonly Pick<StrategyTask, 'axes' | 'strategies'>[] = [
  { axes: [axes.dp], strategies: ['ddp', 'zero-3', 'fsdp'] },
  { axes: [axes.tp], strategies: ['tp'] },
  { axes: [axes.pp], strategies: ['pp'] },
  { axes: [axes.dp, axes.tp], strategies: ['tp × fsdp'] },
];

const LIMIT_MS = 300_000;

/** Trains models on one rank and by each strategy, which is told nothing of them, and compares. */
export function compareStrategies(models: readonly string[]): void {
  compareIn(worlds, models);
}

/** Does the same for rows of packed documents. */
export function compareDocuments(models: readonly string[]): void {
  const ofModel = worlds.filter(({ strategies }) => ['tp', 'pp'].includes(strategies.join()));
  compareIn(ofModel, models, true);
}

/** Does the same for models with experts, which ranks divide. */
export function compareExperts(models: readonly string[]): void {
  compareIn([{ axes: [axes.ep], strategies: ['ep'] }], models);
}

/** Does the same where ranks have parts of rows, with and without packed documents. */
export function compareParts(models: readonly string[]): void {
  compareIn([{ axes: [axes.cp], strategies: ['cp ring', 'cp allGather', 'cp ulysses'] }], models);
  compareIn([{ axes: [axes.cp], strategies: ['cp ring', 'cp ulysses'] }], models, true);
}

/** Does the same where other ranks have parts of layers. */
export function comparePartsOfLayers(models: readonly string[]): void {
  compareIn([{ axes: [axes.tp, axes.cp], strategies: ['tp × cp', 'tp × cp ulysses'] }], models);
  compareIn([{ axes: [axes.pp, axes.cp], strategies: ['pp × cp'] }], models, true);
}

/** Does the same for models with experts, which the ranks that have parts of rows divide, or which each of them has. */
export function compareExpertsInParts(models: readonly string[]): void {
  const inStages = ['pp × cp', 'pp × cp with experts'];
  compareIn([{ axes: [axes.cp], strategies: ['cp with experts'] }], models, true, 'SGD');
  compareIn([{ axes: [axes.pp, axes.cp], strategies: inStages }], models, false, 'SGD');
}

/** Does the same where other ranks have other rows. */
export function comparePartsOfBatches(models: readonly string[]): void {
  compareIn([{ axes: [axes.dp, axes.cp], strategies: ['dp × cp', 'dp × cp ulysses'] }], models);
}

function compareIn(
  of: typeof worlds,
  models: readonly string[],
  isPacked = false,
  optimizer: StrategyTask['optimizer'] = 'AdamW',
): void {
  test.each(of)('$strategies', { timeout: LIMIT_MS }, async (world) => {
    const task: StrategyTask = { ...world, isPacked, optimizer };
    const size = task.axes.reduce((product, each) => product * each.size, 1);
    const isSplit = [axes.dp, axes.ep].some((axis) => task.axes.includes(axis));
    for (const model of models) {
      const golden = decoderCases.find(({ name }) => name === model) ?? expect.fail(model);
      const trainAlone = async () => train(await build(golden), trainingOf(task, null, null));
      const [alone] = await onRanks(1, trainAlone, onCpu);
      for (const name of task.strategies) {
        const ranks = await onRanks(
          size,
          async ({ mesh }) => {
            const strategy = strategies[name]?.() ?? expect.fail(name);
            return train(await build(golden), trainingOf(task, mesh, strategy));
          },
          { axes: task.axes, ...onCpu },
        );
        for (const found of ranks) {
          expectEqual(found.losses, alone?.losses ?? [], `losses of ${model} by ${name}`);
          // Ranks with a part of the batch have a part of the logits.
          if (isSplit) continue;
          expectEqual(found.logits, alone?.logits ?? [], `logits of ${model} by ${name}`);
        }
      }
    }
  });
}

function expectEqual(found: readonly number[], expected: readonly number[], name: string): void {
  expect(found.length, name).toBe(expected.length);
  for (const [i, value] of expected.entries()) {
    expect(Math.abs((found[i] ?? NaN) - value), `${name}, ${i}`).toBeLessThan(
      2e-5 * Math.max(1, Math.abs(value)),
    );
  }
}
