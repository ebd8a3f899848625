import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { causeOf, memoryWords } from './compared-words.ts';
import type {
  ComparedFigure,
  ComparedTerm,
  FigureName,
  MeasurableTerm,
  StepComparison,
} from './comparison.ts';
import type { Prediction } from './predict.ts';
import type { RunLayout } from './run-layout.ts';

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
  /** The time of messages and transfers that computation does not hide, and of waiting for other stages. */
  readonly communicationSeconds?: number;
  /** The time of waiting for batches. */
  readonly dataSeconds?: number;
  /** The time in which the program is collected, planned and compiled. */
  readonly programSeconds?: number;
  /** The seconds of single terms, as far as they are known. */
  readonly terms?: Readonly<Partial<Record<MeasurableTerm, number>>>;
  /** The most bytes that were in use at the same time, as `peakBytes` of `dist.memory` says. */
  readonly peakBytes?: number;
}

const measuredRules: OptionRules<MeasuredStep> = {
  stepSeconds: option.required(option.positive),
  computeSeconds: option.nonNegative,
  communicationSeconds: option.nonNegative,
  dataSeconds: option.nonNegative,
  programSeconds: option.nonNegative,
  terms: option.object(),
  peakBytes: option.nonNegative,
};

/** The terms of the figures that are sums. */
const sums: Readonly<Record<'compute' | 'communication', readonly MeasurableTerm[]>> = {
  compute: ['compute', 'recompute', 'optimizer'],
  communication: [
    'tensorParallel',
    'contextParallel',
    'expertParallel',
    'pipelineParallel',
    'dataParallel',
    'offload',
  ],
};

/** The terms that can be measured, in the order in which they are printed. */
export const measurableTerms: readonly MeasurableTerm[] = [...sums.compute, ...sums.communication];

const termRules: OptionRules<Partial<Record<MeasurableTerm, number>>> = {
  compute: option.nonNegative,
  recompute: option.nonNegative,
  optimizer: option.nonNegative,
  tensorParallel: option.nonNegative,
  contextParallel: option.nonNegative,
  expertParallel: option.nonNegative,
  pipelineParallel: option.nonNegative,
  dataParallel: option.nonNegative,
  offload: option.nonNegative,
};

/** Puts what a run measured beside what was predicted. */
export function compareStep(planned: PlannedStep, measured: MeasuredStep): StepComparison {
  checkOptions('compareStep', measured, measuredRules);
  checkOptions('compareStep: terms', measured.terms ?? {}, termRules);
  const { terms, stepSeconds, memory } = planned;
  const predictedOf = (term: MeasurableTerm): number =>
    terms[term] + (term === 'pipelineParallel' ? terms.bubble : 0);
  const sum = (names: readonly MeasurableTerm[]): number =>
    names.reduce((total, name) => total + predictedOf(name), 0);
  const termsOf = (names: readonly MeasurableTerm[]): readonly ComparedTerm[] =>
    names.flatMap((term) => {
      const found = measured.terms?.[term];
      const predicted = predictedOf(term);
      if (found === undefined || (found === 0 && predicted === 0)) return [];
      return [{ term, predicted, measured: found, ratio: found / predicted }];
    });
  const compared: readonly (readonly [FigureName, number, number | undefined])[] = [
    ['step', stepSeconds, measured.stepSeconds],
    ['compute', sum(sums.compute), measured.computeSeconds],
    ['communication', sum(sums.communication), measured.communicationSeconds],
    ['data', 0, measured.dataSeconds],
    ['program', 0, measured.programSeconds],
    // The overhead is no memory of tensors.
    ['memory', memory.totalBytes - memory.kinds.overhead, measured.peakBytes],
  ];
  const figures = compared.flatMap(([figure, predicted, found]): ComparedFigure[] => {
    if (found === undefined || (found === 0 && predicted === 0)) return [];
    const own = figure === 'compute' || figure === 'communication' ? termsOf(sums[figure]) : [];
    return [{ figure, predicted, measured: found, ratio: found / predicted, terms: own }];
  });
  return { figures, cause: [causeOf(figures), ...memoryWords(figures)].join(' ') };
}
