import type { StepSummary } from '../run-state/summary.ts';

/** The figures of one step over all ranks, by name. */
export interface StepFigures {
  readonly step: number;
  /** Milliseconds since the epoch. */
  readonly endMs: number;
  /** Losses, rates, times and the script's own metrics. Figures that a step does not have are absent. */
  readonly figures: Readonly<Record<string, number>>;
}

/** Takes the figures of each step of a run, in order. A promise is waited for before the next step is given. */
export interface MetricSink {
  (step: StepFigures): void | Promise<void>;
  /** Called when the run is over, however it ended, to send what is left. */
  close?(): Promise<void>;
}

/** Begins to write for a run, whose directory it is given. `onNotice` tells the user something. */
export type OpenSink = (directory: string, onNotice: (text: string) => void) => MetricSink;

/** The names of the figures that a step has besides the metrics of the script. */
const names = [
  'loss',
  'validationLoss',
  'learningRate',
  'tokens',
  'samples',
  'sentBytes',
  'receivedBytes',
  'stepMs',
  'computeMs',
  'communicationMs',
  'dataMs',
  'graphMs',
] as const;

/** The figures of a summary, in a fixed order. Memory is the most of any rank. */
export function figuresIn(summary: StepSummary): StepFigures {
  const figures: Record<string, number> = {};
  for (const name of names) {
    const value = summary[name];
    if (value !== undefined) figures[name] = value;
  }
  const bytes = summary.memoryBytes.filter((each) => each !== undefined);
  if (bytes.length > 0) figures['memoryBytes'] = Math.max(...bytes);
  return { step: summary.step, endMs: summary.endMs, figures: { ...figures, ...summary.metrics } };
}
