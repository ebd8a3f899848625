import type { MemoryUse } from '@shardwise/strategies';

/** What a training loop says of an update, once; `step` counts updates from 1, and ascends. */
export interface StepMetrics {
  readonly step: number;
  readonly totalSteps?: number;
  /** This rank's or the group's; shown as the mean over ranks. */
  readonly loss?: number;
  readonly validationLoss?: number;
  readonly learningRate?: number;
  /**
   * Whatever else is worth a curve, under names of the script's choice: `{ accuracy: 0.9 }`. Shown as the mean
   * over the ranks that report it. Curves whose names agree up to a slash (`accuracy/train`,
   * `accuracy/validation`) share a chart. Up to 64 names in a run.
   */
  readonly metrics?: Readonly<Record<string, number>>;
  /** Tokens that this rank trained on; shown as the sum over ranks. */
  readonly tokens?: number;
  /** What `memory({ model, optimizer })` found on this rank; the report shows it by kind. */
  readonly memory?: MemoryUse;
}
