import type { ClusterDescription, ClusterLink } from '../cluster/cluster.ts';
import { oneDevice, type RunLayout } from '../cost/run-layout.ts';
import { secondsOf, stepTermsOf } from '../cost/step-time.ts';
import type { ModulesDescription } from '../model/model-description.ts';
import type { ZeroStage } from '../model/states.ts';
import { errorsOf, fitConstants } from './least-squares.ts';

/** A training step in f32 with Adam, and the time that it took. */
export interface MeasuredTraining {
  readonly model: ModulesDescription;
  readonly seconds: number;
  /** The ranks of data parallelism, each with the rows of the model. Default: one alone. */
  readonly dataParallel?: number;
  /** What these ranks divide. Default: nothing. */
  readonly zero?: ZeroStage;
}

/** What a device reaches in training steps. */
export interface ReachedRates {
  /** The operations per second of products. */
  readonly flops: number;
  /** The bytes per second that everything else reads and writes. */
  readonly memoryBytesPerSecond: number;
  /** The bytes per second that the update of an optimizer reads and writes. */
  readonly updateBytesPerSecond: number;
  /** The time of an operation besides its work. */
  readonly launchSeconds: number;
  /**
   * The link between ranks, with all that a step does for its messages, such as copies into buckets and programs that end
   * where a message begins. Undefined: all steps were of one rank.
   */
  readonly link?: ClusterLink | undefined;
  /** By how much the steps by these rates differ from those that were measured, relative to them. */
  readonly errors: readonly number[];
}

/** The constants: the seconds of one operation, of one byte or of one call. */
interface UnitTimes {
  readonly flop: number;
  readonly movedByte: number;
  readonly updatedByte: number;
  readonly call: number;
  readonly message: number;
  readonly sentByte: number;
}

const noTimes: UnitTimes = {
  flop: 0,
  movedByte: 0,
  updatedByte: 0,
  call: 0,
  message: 0,
  sentByte: 0,
};

const units: readonly (keyof UnitTimes)[] = [
  'flop',
  'movedByte',
  'updatedByte',
  'call',
  'message',
  'sentByte',
];

/**
 * Fits the rates of a device and of the link between ranks to steps of several small models, in which products, other
 * operations, updates, calls and messages have different shares. What it counts is what `predict` counts.
 */
export function deviceFromSteps(steps: readonly MeasuredTraining[]): ReachedRates {
  const quantities = steps.map((step) => units.map((unit) => amountOf(step, unit)));
  const seconds = steps.map((step) => step.seconds);
  const constants = fitConstants(quantities, seconds);
  const rate = (unit: keyof UnitTimes): number => {
    const column = units.indexOf(unit);
    return rateOf(constants[column] ?? 0, quantities, seconds, column);
  };
  const hasMessages = steps.some(({ dataParallel = 1 }) => dataParallel > 1);
  return {
    flops: rate('flop'),
    memoryBytesPerSecond: rate('movedByte'),
    updateBytesPerSecond: rate('updatedByte'),
    launchSeconds: constants[units.indexOf('call')] ?? 0,
    link: hasMessages
      ? {
          latencySeconds: constants[units.indexOf('message')] ?? 0,
          bytesPerSecond: rate('sentByte'),
        }
      : undefined,
    errors: errorsOf(quantities, seconds, constants),
  };
}

/** How much of a unit a step has: its seconds where one of the unit takes a second, and nothing else takes time. */
function amountOf(
  { model, dataParallel = 1, zero = 0 }: MeasuredTraining,
  unit: keyof UnitTimes,
): number {
  const layout: RunLayout = {
    ...oneDevice,
    dataParallel,
    zero,
    shardRanks: zero === 0 ? 1 : dataParallel,
    rows: model.rows,
    precision: 'f32',
  };
  const workload = { batch: dataParallel * model.rows, sequence: 1 };
  const cluster = clusterWith(dataParallel, { ...noTimes, [unit]: 1 });
  return secondsOf(stepTermsOf(model, layout, workload, cluster));
}

function clusterWith(ranks: number, times: UnitTimes): ClusterDescription {
  const link = { latencySeconds: times.message, bytesPerSecond: 1 / times.sentByte };
  const flops = 1 / times.flop;
  return {
    name: 'units',
    hosts: 1,
    devicesPerHost: ranks,
    device: {
      name: 'units',
      memoryBytes: Infinity,
      flops: { f32: flops, half: flops },
      memoryBytesPerSecond: 1 / times.movedByte,
      updateBytesPerSecond: 1 / times.updatedByte,
      launchSeconds: times.call,
    },
    links: { inside: link, between: link, oversubscription: 1, overlap: 0 },
    efficiency: { products: 1, memory: 1, links: 1, allocator: 1, runtimeBytes: 0 },
    source: '',
  };
}

/** The rate, or the least one if the time of the steps does not depend on it. */
function rateOf(
  perUnit: number,
  quantities: readonly (readonly number[])[],
  seconds: readonly number[],
  column: number,
): number {
  if (perUnit > 0) return 1 / perUnit;
  return Math.max(...quantities.map((row, index) => (row[column] ?? 0) / (seconds[index] ?? 1)));
}
