import type { RankOutcome } from '../ranks/rank-failure.ts';
import { without } from './strategy/without.ts';
import { equal, holds } from '../suite/assertions.ts';
import type { Suite, SuiteTest } from '../suite/suite.ts';
import { contractModels } from './strategy/models.ts';
import {
  type LoneTraining,
  meshOf,
  type PlayedTraining,
  type StrategyScenario,
} from './strategy/scenario.ts';
import type { StrategyCases } from './strategy/strategy-case.ts';
import type { StateBytes, StrategyReport } from './strategy/train.ts';
import type { PhasedMessage } from './strategy/planned-messages.ts';

/** What `strategySuite` tests. */
export interface StrategyContract {
  readonly name: string;
  /** The strategies. The ranks pass the same ones to runStrategyScenario. */
  readonly cases: StrategyCases;
  /**
   * Makes a new world of `size` ranks, in which each calls runStrategyScenario with its group, and returns how
   * each rank ended. Ranks may be threads or processes, because a scenario is plain data.
   */
  readonly run: (size: number, scenario: StrategyScenario) => Promise<readonly RankOutcome[]>;
  /** The sizes of the tested worlds. Default: 1, 2 and 4. */
  readonly sizes?: readonly number[];
  /** The relative tolerance of losses, because sums in another order round differently. Default: 1e-5. */
  readonly relativeTolerance?: number;
}

/** The number of strategies that one world trains with, one after the other, because a world takes time to start. */
const STRATEGIES_OF_WORLD = 16;
/** The time limit of all trainings of a world. */
const WORLD_TIMEOUT_MS = 920_000;

/** How a strategy trained a model in a world. */
interface Played {
  /** The two reports of each rank, which trains twice in the same way. */
  readonly ranks: readonly PlayedTraining['reports'][];
  /** The expected loss of each step. */
  readonly expectedLosses: readonly number[];
}

/**
 * Makes the tests of a Strategy. It must train as one rank does, with the same result on all ranks and in every run.
 * Its plan must list every message and its bytes. A strategy of another version of the interface is refused before.
 */
export function strategySuite(contract: StrategyContract): Suite {
  const { name, sizes = [1, 2, 4] } = contract;
  return {
    name: `${name} keeps the contract of strategies`,
    tests: sizes.flatMap((size) => testsOf(contract, size)),
  };
}

function testsOf(contract: StrategyContract, size: number): readonly SuiteTest[] {
  const { cases, relativeTolerance = 1e-5 } = contract;
  const names = Object.keys(cases).filter((name) => {
    const each = cases[name];
    return each !== undefined && meshOf(each, size) !== null;
  });
  const playing = new Map<number, Promise<ReadonlyMap<string, Played>>>();
  const playedOf = (name: string): Promise<ReadonlyMap<string, Played>> => {
    const world = Math.floor(names.indexOf(name) / STRATEGIES_OF_WORLD);
    const first = world * STRATEGIES_OF_WORLD;
    const known =
      playing.get(world) ?? play(contract, size, names.slice(first, first + STRATEGIES_OF_WORLD));
    playing.set(world, known);
    return known;
  };
  return names.flatMap((name) =>
    Object.keys(cases[name]?.models ?? contractModels).flatMap((model) =>
      Object.entries(checks).map(([promise, check]) => ({
        groups: [`on ${size} ${size === 1 ? 'rank' : 'ranks'}`, name, model],
        name: promise,
        timeoutMs: WORLD_TIMEOUT_MS,
        run: async () => {
          const played = (await playedOf(name)).get(keyOf(name, model));
          holds(played !== undefined, `the ranks have not trained ${model} by ${name}`);
          check(played, { relativeTolerance, apart: cases[name]?.apart ?? [] });
        },
      })),
    ),
  );
}

interface CheckOptions {
  readonly relativeTolerance: number;
  readonly apart: readonly string[];
}

const checks: Readonly<Record<string, (played: Played, options: CheckOptions) => void>> = {
  'all ranks make the same plan': ({ ranks }) => {
    for (const [{ plan }] of ranks) equal(plan, ranks[0]?.[0].plan);
  },
  'the losses are those of one rank': ({ ranks, expectedLosses }, { relativeTolerance }) => {
    for (const [step, expected] of expectedLosses.entries()) {
      const found = ranks.flatMap(([{ losses }]) => losses[step] ?? []);
      const mean = found.reduce((sum, loss) => sum + loss, 0) / found.length;
      const differs = Math.abs(mean - expected) / Math.abs(expected);
      holds(
        differs <= relativeTolerance,
        `step ${step}: a loss of ${mean}, and one rank has ${expected}`,
      );
    }
  },
  'all ranks have the same bits, and have them again': ({ ranks }) => {
    for (const [rank, [first, second]] of ranks.entries()) {
      const about = `rank ${rank}, the second time`;
      equal(second.losses, first.losses, about);
      equal(second.parameters, first.parameters, about);
      equal(second.buffers, first.buffers, about);
      const [root] = ranks[0] ?? [];
      if (first.hasOneModel) equal(first.parameters, root?.parameters, `rank ${rank} and rank 0`);
    }
  },
  'a step communicates what the plan says, message by message': ({ ranks }, { apart }) => {
    for (const [rank, [{ ran, planned }]] of ranks.entries()) {
      const counted = listed(ran.filter(({ operation }) => !apart.includes(operation)));
      const expected = listed(planned);
      equal(without(counted, expected), [], `rank ${rank}, what runs and is not planned`);
      equal(without(expected, counted), [], `rank ${rank}, what is planned and does not run`);
    }
  },
  'the states take the memory that the plan says': ({ ranks }) => {
    const reports = ranks.map(([first]) => first);
    const isPipeline = reports.some(({ hasStages }) => hasStages);
    for (const state of [
      'parameterBytes',
      'gradientBytes',
      'optimizerBytes',
      'bufferBytes',
    ] as const) {
      // The plan describes the rank whose stages have most states. All ranks have the buffers.
      const told = isPipeline && state !== 'bufferBytes' ? [fullest(reports)] : reports;
      const [most, planned] = [mostOf(told, 'kept', state), mostOf(told, 'plannedKept', state)];
      const isPaged = state === 'parameterBytes' && reports.some(({ hasPages }) => hasPages);
      if (isPaged) holds(most <= planned, `${state}: ${most} on the device, of ${planned} planned`);
      else equal(most, planned, state);
    }
  },
};

function fullest(reports: readonly StrategyReport[]): StrategyReport {
  const sumOf = ({ kept }: StrategyReport): number =>
    kept.parameterBytes + kept.gradientBytes + kept.optimizerBytes;
  return reports.reduce((most, report) => (sumOf(report) > sumOf(most) ? report : most));
}

function mostOf(
  reports: readonly StrategyReport[],
  what: 'kept' | 'plannedKept',
  state: keyof StateBytes,
): number {
  return Math.max(...reports.map((report) => report[what][state]));
}

/**
 * Lists messages as texts. They are compared without their order, because the program may choose which message goes
 * first within a phase.
 */
function listed(messages: readonly PhasedMessage[]): readonly string[] {
  return messages.map(
    ({ when, operation, axis, bytes }) => `${when} ${operation} ${axis} ${bytes}`,
  );
}

async function play(
  { run }: StrategyContract,
  size: number,
  names: readonly string[],
): Promise<ReadonlyMap<string, Played>> {
  const outcomes = await run(size, { kind: 'parallel', names });
  const ranks = outcomes.map((outcome) => listOf(outcome).filter(isPlayedTraining));
  const [first = []] = ranks;
  const trainings = first.map(({ name, model, reports: [{ losses, shares }] }): LoneTraining => {
    return { name, model, steps: losses.length, shares };
  });
  const [alone] = await run(1, { kind: 'alone', trainings });
  holds(alone !== undefined, 'one rank gives one outcome');
  const expected = listOf(alone).map((losses) => (Array.isArray(losses) ? losses.map(Number) : []));
  return new Map(
    first.map(({ name, model }, index) => {
      const reports = ranks.flatMap((each) => {
        const played = each[index];
        return played === undefined ? [] : [played.reports];
      });
      holds(reports.length === size, `${reports.length} of ${size} ranks have trained ${model}`);
      return [keyOf(name, model), { ranks: reports, expectedLosses: expected[index] ?? [] }];
    }),
  );
}

function keyOf(name: string, model: string): string {
  return JSON.stringify([name, model]);
}

function listOf(outcome: RankOutcome): readonly unknown[] {
  if (outcome.status === 'rejected') throw outcome.error;
  return Array.isArray(outcome.value) ? outcome.value : [];
}

/** Whether a value is a result of runStrategyScenario, which each rank returns. */
function isPlayedTraining(value: unknown): value is PlayedTraining {
  return typeof value === 'object' && value !== null && 'reports' in value;
}
