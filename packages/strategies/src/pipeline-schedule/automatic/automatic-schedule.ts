import { checkOptions, ConfigError, option, type OptionRules } from '@shardwise/core/extend';
import { amount, range, type Schedule, type StageEdge } from '../actions/schedule.ts';
import { balancedPartition } from './balanced-partition.ts';
import { pipelineSchedule, type ScheduleName, scheduleNames } from '../pipeline-schedule.ts';
import {
  type LinkCosts,
  ofFirstStage,
  type ScheduleCosts,
  type StageCosts,
  stageCostsRules,
} from '../simulation/schedule-costs.ts';
import { type ScheduleSimulation, simulateSchedule } from '../simulation/simulate-schedule.ts';

/** The costs of a layer for all rows of a step together. */
export interface LayerCosts extends StageCosts {
  /** The bytes that the next layer takes. Default: 0. */
  readonly outputBytes?: number;
  /** The bytes of parameters, gradients and optimizer states, which the rank always keeps. Default: 0. */
  readonly stateBytes?: number;
}

/** Options of `automaticSchedule`. */
export interface AutomaticScheduleOptions {
  readonly layers: readonly LayerCosts[];
  readonly ranks: number;
  /** The rows of a step. There cannot be more microbatches than rows. */
  readonly rows: number;
  /** The memory of each rank. Default: without limit. */
  readonly memoryBytes?: number;
  /** The time of messages. Default: messages take no time. */
  readonly link?: LinkCosts;
  /**
   * The time of each forward, input gradient and weight gradient in addition to its share of the layers' times.
   * Default: 0.
   */
  readonly overheadMs?: number;
  /** The schedules to try. Default: all that train. */
  readonly schedules?: readonly ScheduleName[];
  /**
   * The numbers of microbatches to try. Default: multiples of the number of ranks up to 8 times, and powers of
   * 2 up to the same.
   */
  readonly microbatches?: readonly number[];
  /** The numbers of stages per rank to try. Default: 1 to 4. */
  readonly stagesPerRank?: readonly number[];
}

/** The chosen schedule, with the costs for which it was chosen. */
export interface AutomaticSchedule {
  readonly schedule: Schedule;
  /** Stage i has layers `boundaries[i]` to `boundaries[i + 1]` - 1. */
  readonly boundaries: readonly number[];
  readonly costs: ScheduleCosts;
  readonly edges: readonly StageEdge[];
  readonly simulation: ScheduleSimulation;
  /** The states and peak activations of each rank. */
  readonly peakBytes: readonly number[];
  /** The number of candidates that were simulated. */
  readonly tried: number;
  /** The number of simulated candidates that did not fit into memory. */
  readonly withoutRoom: number;
}

const automaticRules: OptionRules<AutomaticScheduleOptions> = {
  layers: option.required(option.listOf(option.object<LayerCosts>('the costs of a layer'))),
  ranks: option.required(option.integer(1, 4096)),
  rows: option.required(option.integer(1)),
  memoryBytes: option.positive,
  link: option.object<LinkCosts>('{ latencyMs, bytesPerSecond }'),
  overheadMs: amount,
  schedules: option.listOf(option.oneOf(...scheduleNames)),
  microbatches: option.listOf(option.integer(1)),
  stagesPerRank: option.listOf(option.integer(1, 256)),
};

const layerRules: OptionRules<LayerCosts> = {
  ...stageCostsRules,
  outputBytes: amount,
  stateBytes: amount,
};

/**
 * Finds the schedule, the cut into stages and the number of microbatches that are fastest in the simulator, among
 * those for which every rank has enough memory. Of equally fast ones it takes the one that needs least memory. It
 * tries cuts that balance the time of stages, and cuts that balance their memory.
 *
 * Throws ConfigError if nothing fits; the message says how much the smallest one needs.
 */
export function automaticSchedule(options: AutomaticScheduleOptions): AutomaticSchedule {
  checkOptions('automaticSchedule', options, automaticRules);
  for (const [index, layer] of options.layers.entries()) {
    checkOptions(`automaticSchedule, layer ${index}`, layer, layerRules);
  }
  if (options.layers.length < options.ranks) {
    throw failure(
      options,
      `${options.layers.length} layers`,
      'Take fewer ranks, or name finer layers',
    );
  }
  const { memoryBytes = Infinity } = options;
  let best: AutomaticSchedule | undefined;
  let leastBytes = Infinity;
  let [tried, withoutRoom] = [0, 0];
  for (const schedule of schedulesOf(options)) {
    for (const boundaries of cutsOf(options.layers, schedule)) {
      const candidate = evaluate(options, schedule, boundaries);
      tried++;
      const needed = Math.max(...candidate.peakBytes);
      leastBytes = Math.min(leastBytes, needed);
      if (needed > memoryBytes) withoutRoom++;
      else if (best === undefined || isBetter(candidate, best)) best = candidate;
    }
  }
  if (tried === 0) {
    throw failure(
      options,
      'no schedule that takes them',
      'Allow more schedules, stages per rank or microbatches',
    );
  }
  if (best === undefined) {
    throw failure(
      options,
      `none of ${tried} schedules and cuts fits into memory: the smallest one needs ${leastBytes} bytes on a rank that has ${memoryBytes}`,
      'Take more ranks, more microbatches or recomputed activations',
    );
  }
  return { ...best, tried, withoutRoom };
}

function isBetter(a: AutomaticSchedule, b: AutomaticSchedule): boolean {
  const [timeA, timeB] = [a.simulation.makespanMs, b.simulation.makespanMs];
  // Sums of the same times in another order differ in their last bits.
  if (Math.abs(timeA - timeB) > 1e-9 * timeB) return timeA < timeB;
  return Math.max(...a.peakBytes) < Math.max(...b.peakBytes);
}

function schedulesOf(options: AutomaticScheduleOptions): Schedule[] {
  const { ranks, rows, layers } = options;
  const multiples = [1, 2, 3, 4, 6, 8].map((rounds) => rounds * ranks);
  const powers = range(16)
    .map((exponent) => 2 ** exponent)
    .filter((power) => power <= 8 * ranks);
  const counts = options.microbatches ?? [...new Set([...powers, ...multiples])];
  const names = options.schedules ?? scheduleNames.filter((name) => name !== 'forwardOnly');
  return names.flatMap((name) =>
    (options.stagesPerRank ?? [1, 2, 3, 4]).flatMap((stagesPerRank) =>
      counts.flatMap((microbatches) => {
        if (microbatches > rows || stagesPerRank * ranks > layers.length) return [];
        return scheduleOrNone(name, { ranks, stagesPerRank, microbatches });
      }),
    ),
  );
}

/** Returns the schedule of a name, or nothing if it does not exist for this shape. */
function scheduleOrNone(
  name: ScheduleName,
  shape: { ranks: number; stagesPerRank: number; microbatches: number },
): Schedule[] {
  try {
    return [pipelineSchedule(name, shape)];
  } catch (error) {
    if (error instanceof ConfigError) return [];
    throw error;
  }
}

/** Returns the boundaries that balance the time of stages, and those that balance their memory if they differ. */
function cutsOf(layers: readonly LayerCosts[], { stages }: Schedule): number[][] {
  const times = layers.map(
    ({ forwardMs, inputGradientMs, weightGradientMs }) =>
      forwardMs + inputGradientMs + weightGradientMs,
  );
  const bytes = layers.map(
    ({ stateBytes = 0, activationBytes = 0 }) => stateBytes + activationBytes,
  );
  const [byTime, byMemory] = [times, bytes].map((costs) => balancedPartition(costs, stages));
  const cuts = [byTime ?? []];
  if (byMemory !== undefined && byMemory.join() !== byTime?.join()) cuts.push(byMemory);
  return cuts;
}

function evaluate(
  { layers, link, overheadMs = 0 }: AutomaticScheduleOptions,
  schedule: Schedule,
  boundaries: readonly number[],
): AutomaticSchedule {
  const { microbatches, stages } = schedule;
  const layersOf = (stage: number): readonly LayerCosts[] =>
    layers.slice(boundaries[stage], boundaries[stage + 1]);
  const costs: ScheduleCosts = {
    stages: range(stages).map((stage): StageCosts => {
      const own = layersOf(stage);
      const sum = (of: (layer: LayerCosts) => number): number =>
        own.reduce((all, layer) => all + of(layer), 0) / microbatches;
      const kept = (layer: LayerCosts): number => layer.activationBytes ?? 0;
      const costsOfStage: StageCosts = {
        forwardMs: overheadMs + sum(({ forwardMs }) => forwardMs),
        inputGradientMs: overheadMs + sum(({ inputGradientMs }) => inputGradientMs),
        weightGradientMs: overheadMs + sum(({ weightGradientMs }) => weightGradientMs),
        backwardMs:
          overheadMs +
          sum((layer) => layer.backwardMs ?? layer.inputGradientMs + layer.weightGradientMs),
        activationBytes: sum(kept),
        weightGradientBytes: sum((layer) => layer.weightGradientBytes ?? kept(layer)),
      };
      if (stage > 0) return costsOfStage;
      return ofFirstStage(costsOfStage, (own.at(-1)?.outputBytes ?? 0) / microbatches);
    }),
    ...(link === undefined ? {} : { link }),
  };
  const edges = range(stages - 1).map((from): StageEdge => {
    const bytes = (layersOf(from).at(-1)?.outputBytes ?? 0) / microbatches;
    return { from, to: from + 1, gradient: true, bytes };
  });
  const simulation = simulateSchedule(schedule, costs, edges);
  const peakBytes = simulation.ranks.map(({ peakActivationBytes }, rank) =>
    range(stages)
      .filter((stage) => schedule.rankOfStage[stage] === rank)
      .flatMap(layersOf)
      .reduce((sum, { stateBytes = 0 }) => sum + stateBytes, peakActivationBytes),
  );
  return { schedule, boundaries, costs, edges, simulation, peakBytes, tried: 1, withoutRoom: 0 };
}

function failure(
  { ranks, rows, layers, memoryBytes }: AutomaticScheduleOptions,
  found: string,
  todo: string,
): ConfigError {
  return new ConfigError(
    {
      asked: `a schedule for ${layers.length} layers on ${ranks} ranks with ${rows} rows`,
      found,
      todo,
    },
    { ranks, rows, layers: layers.length, memoryBytes },
  );
}
