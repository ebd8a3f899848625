import type { MemoryUse } from '@shardwise/strategies';

/** What a training loop says of an update; `step` counts updates from 1. */
export interface StepMetrics {
  readonly step: number;
  readonly totalSteps?: number;
  /** This rank's or the group's; shown as the mean over ranks. */
  readonly loss?: number;
  readonly validationLoss?: number;
  readonly learningRate?: number;
  /** That this rank trained on; shown as the sum over ranks. */
  readonly tokens?: number;
  /** What `memory({ model, optimizer })` found on this rank; the report shows it by kind. */
  readonly memory?: MemoryUse;
}
