import { allGatherObject, createMesh, singleGroup } from '@shardwise/collectives';
import { manualSeed, optim, setRank } from '@shardwise/core';
import {
  checkOptions,
  ConfigError,
  currentSession,
  type Mesh,
  type Model,
  type Module,
  option,
  type Optimizer,
  type OptionRules,
  type ParallelModel,
  type Parameter,
  placeInMesh,
  randomState,
  requireModule,
  setRandomState,
  type Strategy,
} from '@shardwise/core/extend';
import { parallelize } from '@shardwise/strategies';
import { compareRuns } from './compare-runs.ts';
import { perturbationOf, Tolerances } from './differ.ts';
import type { Verification } from './finding.ts';
import { Observation, type OneRank } from './observe.ts';
import { isRankRecord, type RankRecord } from './records.ts';
import { passesOf, wholeBatch } from './whole-batch.ts';

/** A run of a program, on many ranks or on one, as `verify` gives it to its steps. */
export interface VerifiedRun<M, Inputs extends readonly unknown[], Output> {
  /** The model under the strategy, or on one rank. Its forward() takes this rank's part of the batch. */
  readonly model: ParallelModel<M, Inputs, Output>;
  /** An optimizer of the model's parameters. */
  readonly optimizer: Optimizer;
  /** The number of the step, from 1 on. */
  readonly step: number;
  /** The rank and the number of ranks. On one rank they are 0 and 1. */
  readonly rank: number;
  readonly worldSize: number;
  /** The mesh. On one rank, its axes have one rank each. */
  readonly mesh: Mesh;
}

/** Options of `verify`. */
export interface VerifyOptions {
  /** The number of steps. Default: 3. */
  readonly steps?: number;
  /** Makes the optimizer. Default: AdamW with a learning rate of 1e-3. */
  readonly optimizer?: (parameters: readonly Parameter[]) => Optimizer;
  /** The seed from which each run starts (manualSeed). Default: 0. */
  readonly seed?: number;
}

const optionRules: OptionRules<VerifyOptions> = {
  steps: option.integer(1, 1000),
  optimizer: option.callback<(parameters: readonly Parameter[]) => Optimizer>(),
  seed: option.integer(0, 2 ** 32 - 1),
};

/**
 * Runs the same training steps under a strategy and on one rank, and returns the first tensor that differs by more than
 * rounding. `build` makes the model, and `step` does what a training script does in a step: it makes tensors of this
 * rank's data, and calls forward(), backward() and optimizer.step(). On one rank, its tensors of data become those of
 * all ranks. It is a collective over the mesh of the rank, which it leaves as it was; so are the random numbers.
 *
 * Throws ConfigError if the steps make no update, and if they cannot run on one rank with the batch of all ranks.
 */
export async function verify<
  M extends Module & Model<Inputs, Output>,
  Inputs extends readonly unknown[],
  Output,
>(
  build: () => M & Model<Inputs, Output>,
  step: (run: VerifiedRun<M, Inputs, Output>) => void | Promise<void>,
  strategy: Strategy,
  options: VerifyOptions = {},
): Promise<Verification> {
  checkOptions('verify', options, optionRules);
  const { steps = 3, seed = 0 } = options;
  const makeOptimizer =
    options.optimizer ?? ((parameters) => new optim.AdamW(parameters, { lr: 1e-3 }));
  const { backend: device, mesh } = currentSession();
  const before = randomState();
  const axes = mesh.axes.map(({ name }) => ({ name, size: 1 }));
  const lone = axes.length === 0 ? mesh : await createMesh(singleGroup(), axes);
  const play = async (one: OneRank | null): Promise<RankRecord> => {
    const own = one === null ? mesh : lone;
    setRank({ device, mesh: own });
    manualSeed(seed);
    const observation = new Observation(one, () => undefined);
    try {
      const module = build();
      requireModule('verify', module);
      const model = await parallelize<M, Inputs, Output>(module, strategy);
      const optimizer = makeOptimizer(module.parameters());
      const place = placeInMesh(own);
      for (let count = 1; count <= steps; count++) {
        await step({ model, optimizer, step: count, ...place, mesh: own });
      }
      return requireRecord(observation.record(), steps);
    } finally {
      observation.end();
    }
  };
  try {
    const ranks = await gatherRecords(await play(null), mesh);
    return await compareWithOne(ranks, steps, play);
  } finally {
    setRank({ device, mesh });
    setRandomState(before);
  }
}

/** Compares records of ranks with runs of one rank, of which all but the first have moved parameters. */
export async function compareWithOne(
  ranks: readonly RankRecord[],
  steps: number,
  play: (one: OneRank) => Promise<RankRecord>,
): Promise<Verification> {
  const [first] = ranks;
  if (first === undefined) throw new RangeError('no ranks');
  const perturbation = perturbationOf(ranks);
  const one = {
    ranks: ranks.length,
    batch: wholeBatch(ranks),
    passes: passesOf(ranks),
    plan: first.plan,
  };
  const runs = { ranks, steps };
  try {
    const alone = await play({ ...one, perturbation: 0, seed: 0 });
    const moved: RankRecord[] = [];
    for (const seed of [1, 2]) moved.push(await play({ ...one, perturbation, seed }));
    return compareRuns({
      ...runs,
      one: alone,
      tolerances: new Tolerances(alone, moved, perturbation),
    });
  } catch (cause) {
    const found = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(
      {
        asked: 'the steps on one rank, with the batch of all ranks',
        found,
        todo: 'Take sizes of batches from the shapes of their tensors, and not from constants',
      },
      {},
      { cause },
    );
  }
}

/** Gives each rank the records of all ranks of the mesh, in rank order. */
async function gatherRecords(own: RankRecord, mesh: Mesh): Promise<readonly RankRecord[]> {
  let records: readonly RankRecord[] = [own];
  for (const { name, size } of mesh.axes.toReversed()) {
    if (size === 1) continue;
    const lists = await allGatherObject(mesh.group(name), records);
    records = lists.flatMap((list) => (Array.isArray(list) ? list.filter(isRankRecord) : []));
  }
  return records;
}

function requireRecord(record: RankRecord | null, steps: number): RankRecord {
  if (record !== null && record.backwards.length > 0) return record;
  throw new ConfigError(
    {
      asked: `verify of ${steps} steps`,
      found: 'no update of an optimizer in them',
      todo: 'Call loss.backward() and await run.optimizer.step() in each step',
    },
    { steps },
  );
}
