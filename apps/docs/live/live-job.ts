import type { nn, optim, TimelineEvent } from 'shardwise/browser';

/** What the page gives to each rank of a training. */
export interface LiveJob {
  readonly task: unknown;
  readonly seed: number;
  readonly steps: number;
  /** Where ranks go on; undefined for a training that begins. */
  readonly checkpoint: Checkpoint | undefined;
}

/** What the page posts to each rank, which waits when it has done as many steps. */
export interface Allowance {
  readonly allowedSteps: number;
}

/** What a rank that does not train sends when it begins to hear allowances. */
export const READY = 'ready';

/** Ranks hear other messages, too. */
export function isAllowance(data: unknown): data is Allowance {
  return typeof data === 'object' && data !== null && 'allowedSteps' in data;
}

/** Whole values, as rank 0 has collected them. */
export interface Checkpoint {
  readonly step: number;
  readonly model: Awaited<ReturnType<nn.Module['stateDict']>>;
  readonly optimizer: Awaited<ReturnType<optim.AdamW['stateDict']>>;
}

/** A stretch of a rank's work. Milliseconds of the page's clock, which all workers share. */
export type Span = Pick<TimelineEvent, 'category' | 'name' | 'startMs' | 'durationMs'>;

/** Collectives of one kind in a step. */
export interface MessageCount {
  readonly operation: string;
  readonly count: number;
  /** What each takes or gives, whichever is larger, in sum. */
  readonly bytes: number;
}

/** What a rank has measured of itself. `Look` is what the task adds. */
export interface Snapshot<Look> {
  readonly step: number;
  /** From the rank's beginning. */
  readonly computeMs: number;
  /** From the rank's beginning: waiting for others. */
  readonly communicationMs: number;
  /** Parameters, gradients and optimizer states. */
  readonly statesBytes: number;
  /** The same, as the strategy's plan says; undefined where there is no plan. */
  readonly plannedBytes: number | undefined;
  /** The collectives of this step. */
  readonly messages: readonly MessageCount[];
  /** Those of a step, as the strategy's plan says. */
  readonly plannedMessages: readonly MessageCount[] | undefined;
  /** The work of this step. */
  readonly spans: readonly Span[];
  readonly look: Look;
}

/** What a rank sends to the page. */
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
