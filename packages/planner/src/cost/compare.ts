import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { textTable } from '@shardwise/strategies';
import type { Prediction } from './predict.ts';
import type { RunLayout } from './run-layout.ts';
import type { StepTerms } from './step-time.ts';

/** What a run is compared with: a part of a prediction, such as the best layout of a plan in a file. */
export type PlannedStep = Pick<Prediction, 'terms' | 'stepSeconds'> & {
  readonly layout: Pick<
    RunLayout,
    'dataParallel' | 'tensorParallel' | 'pipelineParallel' | 'contextParallel'
  >;
  readonly memory: {
    readonly totalBytes: number;
    readonly kinds: { readonly overhead: number };
  };
};

/** What a run measured. What is left out is not compared. */
export interface MeasuredStep {
  /** The median time of a step. */
  readonly stepSeconds: number;
  /** The time in which a rank computes. */
  readonly computeSeconds?: number;
  /** The time of messages that computation does not hide. */
  readonly communicationSeconds?: number;
  /** The most bytes that were in use at the same time, as `peakBytes` of `dist.memory` says. */
  readonly peakBytes?: number;
}

const measuredRules: OptionRules<MeasuredStep> = {
  stepSeconds: option.required(option.positive),
  computeSeconds: option.nonNegative,
  communicationSeconds: option.nonNegative,
  peakBytes: option.nonNegative,
};

/** A figure of a step, as it was predicted and as it was measured. */
export interface ComparedFigure {
  readonly figure: 'step' | 'compute' | 'communication' | 'memory';
  readonly predicted: number;
  readonly measured: number;
  /** What was measured over what was predicted. */
  readonly ratio: number;
}

/** Measured figures of a step beside the predicted ones. */
export interface StepComparison {
  readonly figures: readonly ComparedFigure[];
  /** In words: whether the step takes what was predicted, and otherwise the most probable cause of the difference. */
  readonly cause: string;
}

/** Figures that differ by less than this are not explained. */
const CLOSE = 0.1;

const sums: Readonly<Record<'compute' | 'communication', readonly (keyof StepTerms)[]>> = {
  compute: ['compute', 'recompute', 'optimizer'],
  communication: [
    'tensorParallel',
    'contextParallel',
    'expertParallel',
    'pipelineParallel',
    'dataParallel',
  ],
};

/** Puts what a run measured beside what was predicted. */
export function compareStep(planned: PlannedStep, measured: MeasuredStep): StepComparison {
  checkOptions('compareStep', measured, measuredRules);
  const { terms, stepSeconds, memory } = planned;
  const sum = (names: readonly (keyof StepTerms)[]): number =>
    names.reduce((total, name) => total + terms[name], 0);
  const compared = [
    ['step', stepSeconds, measured.stepSeconds],
    ['compute', sum(sums.compute), measured.computeSeconds],
    ['communication', sum(sums.communication), measured.communicationSeconds],
    // The overhead is no memory of tensors.
    ['memory', memory.totalBytes - memory.kinds.overhead, measured.peakBytes],
  ] as const;
  const figures = compared.flatMap(([figure, predicted, found]) =>
    found === undefined ? [] : [{ figure, predicted, measured: found, ratio: found / predicted }],
  );
  return { figures, cause: [causeOf(figures), ...memoryWords(figures)].join(' ') };
}

/** Writes the figures of a comparison as rows of texts, with the titles of their columns in the first one. */
export function comparisonRows({ figures }: StepComparison): readonly (readonly string[])[] {
  const rows = figures.map(({ figure, predicted, measured, ratio }) => {
    const text = figure === 'memory' ? bytesText : seconds;
    const part = Number.isFinite(ratio) ? `× ${ratio.toFixed(2)}` : '';
    return [figure, text(predicted), text(measured), part];
  });
  return [['', 'predicted', 'measured', ''], ...rows];
}

/** Writes a comparison as a table, with the most probable cause of the largest difference. */
export function comparisonText(comparison: StepComparison): string {
  return [textTable(comparisonRows(comparison)), comparison.cause].join('\n');
}

function causeOf(figures: readonly ComparedFigure[]): string {
  const step = figures.find(({ figure }) => figure === 'step');
  if (step === undefined || Math.abs(step.ratio - 1) < CLOSE) {
    return 'The step takes what was predicted.';
  }
  const difference = ({ predicted, measured }: ComparedFigure): number => measured - predicted;
  const sign = Math.sign(difference(step));
  const parts = figures.filter(({ figure }) => figure === 'compute' || figure === 'communication');
  const largest = parts.toSorted((a, b) => sign * (difference(b) - difference(a)))[0];
  const how = sign > 0 ? 'longer' : 'shorter';
  if (largest === undefined || sign * difference(largest) <= 0) {
    return `The step takes ${how} than predicted, and what was measured of it does not say where.`;
  }
  const rest = difference(step) - parts.reduce((sum, each) => sum + difference(each), 0);
  if (parts.length === 2 && sign * rest > sign * difference(largest)) {
    return `The step takes ${how}, most of it neither in computation nor in messages: in waiting for data, for other ranks or for the program.`;
  }
  const advice =
    largest.figure === 'compute'
      ? 'measure the device again (`shardwise measure`), or look for other load on it'
      : 'measure the links (`shardwise doctor --nproc`), or look for a slow one';
  return `The step takes ${how}, most of it in ${largest.figure}: ${advice}.`;
}

/** Returns what there is to say of the memory: nothing if it is as predicted, or was not measured. */
function memoryWords(figures: readonly ComparedFigure[]): readonly string[] {
  const memory = figures.find(({ figure }) => figure === 'memory');
  if (memory === undefined || Math.abs(memory.ratio - 1) < CLOSE) return [];
  const { predicted, measured } = memory;
  const difference = bytesText(Math.abs(measured - predicted));
  return measured > predicted
    ? [
        `Tensors take ${difference} more than predicted: profiler.memoryTimeline names those at the peak.`,
      ]
    : [`Tensors take ${difference} less than predicted.`];
}

function seconds(value: number): string {
  return value >= 1 ? `${value.toPrecision(3)} s` : `${(1000 * value).toPrecision(3)} ms`;
}

function bytesText(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${(bytes / 1e6).toPrecision(3)} MB`;
}
