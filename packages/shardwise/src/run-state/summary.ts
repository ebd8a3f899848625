import type { MemoryUse } from '@shardwise/strategies';
import type { StepReport } from './run-message.ts';
import { figureOf, type NamedMetrics } from './named-metrics.ts';

/** One step over all ranks, or the mean of several steps that follow each other. */
export interface StepSummary {
  /** The last step of the summary. `steps` is the number of steps that it covers. */
  readonly step: number;
  readonly steps: number;
  readonly endMs: number;
  /** The mean over the ranks, as are the following two. */
  readonly loss: number | undefined;
  readonly validationLoss: number | undefined;
  readonly learningRate: number | undefined;
  /** For each metric that a rank has reported, the mean over the ranks that reported it. */
  readonly metrics: NamedMetrics;
  /** The sum of the tokens of all ranks. */
  readonly tokens: number;
  /** The sum over the ranks that report them, as are the following two. */
  readonly samples: number | undefined;
  readonly sentBytes: number | undefined;
  readonly receivedBytes: number | undefined;
  /** The milliseconds of the slowest rank. */
  readonly stepMs: number;
  /** The mean over the ranks, as are the following figures in milliseconds. */
  readonly computeMs: number;
  readonly communicationMs: number;
  readonly dataMs: number;
  readonly graphMs: number;
  /** The bytes of memory of each rank. */
  readonly memoryBytes: readonly (number | undefined)[];
  /** The memory by kind, of the lowest rank that reports it. */
  readonly memory?: MemoryUse;
}

/** Summarizes the reports of one step, which are ordered by rank. */
export function summarize(reports: readonly StepReport[]): StepSummary {
  const combine = (
    pick: (report: StepReport) => number | undefined,
    divide: boolean,
  ): number | undefined => {
    const values = reports.map(pick).filter((value) => value !== undefined);
    if (values.length === 0) return undefined;
    return values.reduce((total, value) => total + value, 0) / (divide ? values.length : 1);
  };
  const sum = (pick: (report: StepReport) => number | undefined): number | undefined =>
    combine(pick, false);
  const mean = (pick: (report: StepReport) => number | undefined): number | undefined =>
    combine(pick, true);
  const names = new Set(reports.flatMap(({ metrics = {} }) => Object.keys(metrics)));
  const metrics = Object.fromEntries(
    [...names].map((name) => [
      name,
      mean((report) => figureOf(report.metrics, name)) ?? Number.NaN,
    ]),
  );
  const memory = reports.find((report) => report.memory !== undefined)?.memory;
  return {
    step: reports[0]?.step ?? 0,
    steps: 1,
    endMs: Math.max(...reports.map(({ endMs }) => endMs)),
    loss: mean(({ loss }) => loss),
    validationLoss: mean(({ validationLoss }) => validationLoss),
    learningRate: mean(({ learningRate }) => learningRate),
    metrics,
    tokens: reports.reduce((sum, { tokens = 0 }) => sum + tokens, 0),
    samples: sum(({ samples }) => samples),
    sentBytes: sum(({ sentBytes }) => sentBytes),
    receivedBytes: sum(({ receivedBytes }) => receivedBytes),
    stepMs: Math.max(...reports.map(({ stepMs }) => stepMs)),
    computeMs: mean(({ computeMs }) => computeMs) ?? 0,
    communicationMs: mean(({ communicationMs }) => communicationMs) ?? 0,
    dataMs: mean(({ dataMs }) => dataMs) ?? 0,
    graphMs: mean(({ graphMs }) => graphMs) ?? 0,
    memoryBytes: reports.map(({ memoryBytes }) => memoryBytes),
    ...(memory === undefined ? {} : { memory }),
  };
}

/** Returns the time of a step that went into none of compute, communication, data and graph. */
export function otherMs(summary: StepSummary): number {
  const { stepMs, computeMs, communicationMs, dataMs, graphMs } = summary;
  return Math.max(0, stepMs - computeMs - communicationMs - dataMs - graphMs);
}

/** Merges the summaries of steps that follow each other. `later` follows `earlier`. */
export function mergeSummaries(earlier: StepSummary, later: StepSummary): StepSummary {
  const steps = earlier.steps + later.steps;
  const mean = (a: number, b: number): number => (a * earlier.steps + b * later.steps) / steps;
  const known = (a: number | undefined, b: number | undefined): number | undefined =>
    a === undefined || b === undefined ? (b ?? a) : mean(a, b);
  const names = new Set([...Object.keys(earlier.metrics), ...Object.keys(later.metrics)]);
  const metrics = Object.fromEntries(
    [...names].map((name) => [
      name,
      known(figureOf(earlier.metrics, name), figureOf(later.metrics, name)) ?? Number.NaN,
    ]),
  );
  return {
    step: later.step,
    steps,
    endMs: later.endMs,
    loss: known(earlier.loss, later.loss),
    validationLoss: later.validationLoss ?? earlier.validationLoss,
    learningRate: later.learningRate ?? earlier.learningRate,
    metrics,
    tokens: mean(earlier.tokens, later.tokens),
    samples: known(earlier.samples, later.samples),
    sentBytes: known(earlier.sentBytes, later.sentBytes),
    receivedBytes: known(earlier.receivedBytes, later.receivedBytes),
    stepMs: mean(earlier.stepMs, later.stepMs),
    computeMs: mean(earlier.computeMs, later.computeMs),
    communicationMs: mean(earlier.communicationMs, later.communicationMs),
    dataMs: mean(earlier.dataMs, later.dataMs),
    graphMs: mean(earlier.graphMs, later.graphMs),
    memoryBytes: later.memoryBytes,
    ...(later.memory === undefined ? {} : { memory: later.memory }),
  };
}
