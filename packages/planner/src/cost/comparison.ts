import type { StepTerms } from './step-time.ts';

/**
 * The terms of a step that can be measured. A rank that waits for another stage can't tell the bubble from the message,
 * so `pipelineParallel` has both.
 */
export type MeasurableTerm = Exclude<keyof StepTerms, 'bubble'>;

/** Of what a comparison shows the predicted and the measured amount. */
export type FigureName = 'step' | 'compute' | 'communication' | 'data' | 'program' | 'memory';

/** The seconds of a term, or of several that are measured together, as they were predicted and as they were measured. */
export interface ComparedTerm {
  readonly term: MeasurableTerm;
  readonly predicted: number;
  readonly measured: number;
  /** What was measured over what was predicted. */
  readonly ratio: number;
}

/** A figure of a step, as it was predicted and as it was measured: seconds, or the bytes of the memory. */
export interface ComparedFigure extends Omit<ComparedTerm, 'term'> {
  readonly figure: FigureName;
  /** The terms of the figure that were measured, without those that are 0 in both. */
  readonly terms: readonly ComparedTerm[];
}

/** Measured figures of a step beside the predicted ones. */
export interface StepComparison {
  readonly figures: readonly ComparedFigure[];
  /** In words: whether the step takes what was predicted, and otherwise the most probable cause of the difference. */
  readonly cause: string;
}
