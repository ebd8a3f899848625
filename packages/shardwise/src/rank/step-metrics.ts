import type { MemoryUse } from '@shardwise/strategies';

/** The metrics of one update. `step` counts updates from 1 and must ascend. */
export interface StepMetrics {
  readonly step: number;
  readonly totalSteps?: number;
  /** The loss of this rank or of the group. The report shows the mean over the ranks. */
  readonly loss?: number;
  readonly validationLoss?: number;
  readonly learningRate?: number;
  /**
   * Other figures to draw, under names that the script chooses: `{ accuracy: 0.9 }`. The report shows the mean
   * over the ranks that report them. Curves whose names agree up to a slash (`accuracy/train`,
   * `accuracy/validation`) share a chart. A run may have up to 64 names.
   */
  readonly metrics?: Readonly<Record<string, number>>;
  /** The number of tokens that this rank trained on. The report shows the sum over the ranks. */
  readonly tokens?: number;
  /** The number of samples that this rank trained on, such as images. The report shows the sum over the ranks. */
  readonly samples?: number;
  /** The result of `memory({ model, optimizer })` on this rank. The report shows it by kind. */
  readonly memory?: MemoryUse;
}
