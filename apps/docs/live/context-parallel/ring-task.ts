import type { ContextParallelOptions } from '@shardwise/strategies';

/** What the page asks its ranks to compute: causal attention to one sequence that they share. */
export interface RingTask {
  readonly method: NonNullable<ContextParallelOptions['method']>;
  readonly order: NonNullable<ContextParallelOptions['order']>;
  /** The number of tokens of the sequence. */
  readonly length: number;
}

/** What a rank got from other ranks for attention, in one message. */
export interface ReceivedMessage {
  readonly operation: 'recv' | 'allGather' | 'allToAll' | 'reduceScatter';
  readonly pass: 'forward' | 'backward';
  /** The bytes that came from other ranks. */
  readonly bytes: number;
  /** For `recv` in the forward pass: the tokens whose keys or values came, read from the message. Padding is left out. */
  readonly tokens?: readonly number[];
}

/** What a rank tells the page after its passes. */
export interface RingRecord {
  readonly messages: readonly ReceivedMessage[];
  /** The largest difference between the gradient of the weights and what one rank computes alone. */
  readonly difference: number;
}

export const HEADS = 8;
export const HEAD_WIDTH = 8;
/** The number of neighbours that exchange heads by the method `usp`. */
export const NEIGHBOURS = 2;
