import type { nn, optim, profiler } from 'shardwise/browser';

/** The data that the page gives to each rank of a training. */
export interface LiveJob {
  readonly task: unknown;
  readonly seed: number;
  readonly steps: number;
  /** The checkpoint from which ranks continue. Undefined for a new training. */
  readonly checkpoint: Checkpoint | undefined;
}

/** A message of the page to each rank, which waits after this number of steps. */
export interface Allowance {
  readonly allowedSteps: number;
}

/** The message of a rank that does not train when it begins to listen for allowances. */
export const READY = 'ready';

/** Whether a message is an allowance. Ranks also get other messages. */
export function isAllowance(data: unknown): data is Allowance {
  return typeof data === 'object' && data !== null && 'allowedSteps' in data;
}

/** Whole values, which rank 0 has collected. */
export interface Checkpoint {
  readonly step: number;
  readonly model: Awaited<ReturnType<nn.Module['stateDict']>>;
  readonly optimizer: Awaited<ReturnType<optim.AdamW['stateDict']>>;
}

/** A stretch of a rank's work. Times are in milliseconds of the page's clock, which all workers share. */
export type Span = Pick<profiler.TimelineEvent, 'category' | 'name' | 'startMs' | 'durationMs'>;

/** The collectives of one kind in a step. */
export interface MessageCount {
  readonly operation: string;
  readonly count: number;
  /** The sum over the collectives of the bytes of their inputs or outputs, whichever are larger. */
  readonly bytes: number;
}

/** The measurements of a rank. `Look` is what the task adds. */
export interface Snapshot<Look> {
  readonly step: number;
  /** The time of computing since the rank began. */
  readonly computeMs: number;
  /** The time of waiting for others since the rank began. */
  readonly communicationMs: number;
  /** The bytes of parameters, gradients and optimizer states. */
  readonly statesBytes: number;
  /** The same bytes according to the strategy's plan. Undefined if there is no plan. */
  readonly plannedBytes: number | undefined;
  /** The collectives of this step. */
  readonly messages: readonly MessageCount[];
  /** The collectives of a step according to the strategy's plan. Undefined if there is no plan. */
  readonly plannedMessages: readonly MessageCount[] | undefined;
  /** The work of this step. */
  readonly spans: readonly Span[];
  readonly look: Look;
}

/** A message of a rank to the page. */
export type LiveMessage<Look> =
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'step';
      readonly step: number;
      readonly loss: number;
      readonly stepMs: number;
    }
  | { readonly kind: 'snapshot'; readonly snapshot: Snapshot<Look> }
  | { readonly kind: 'checkpoint'; readonly checkpoint: Checkpoint };
