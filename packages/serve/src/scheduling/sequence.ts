import type { BlockTable } from '../blocks/block-table.ts';
import type { SwappedTokens } from '../blocks/swap-space.ts';

/** What a scheduler is told of a sequence when it arrives. */
export interface SequenceOptions {
  readonly prompt: readonly number[];
  /** The most tokens that are added to the prompt. */
  readonly maxNewTokens: number;
  /** How many sequences continue the prompt. They share its blocks. Default: 1. */
  readonly samples?: number;
  /** Higher ones come first, if the policy asks for it. Default: 0. */
  readonly priority?: number;
  /** Whose sequence it is, for fairness and statistics. Default: ''. */
  readonly tenant?: string;
  /** Sequences of different salts share no blocks. Default: ''. */
  readonly salt?: string;
  /** The number of the adapter with which its tokens are computed. 0 is the model without one. Default: 0. */
  readonly adapter?: number;
  /** When the sequence ends, whether it is complete or not, on the clock of the scheduler. Default: never. */
  readonly deadline?: number;
}

/** A prompt with the tokens that were added to it, as the scheduler sees it. */
export interface Sequence {
  readonly number: number;
  /** The prompt, and behind it the tokens that were added. */
  readonly tokens: number[];
  readonly promptLength: number;
  readonly maxNewTokens: number;
  /** How many sequences it will become, with itself. */
  samples: number;
  readonly priority: number;
  readonly tenant: string;
  readonly deadline: number;
  readonly adapter: number;
  /** When it arrived, in numbers of sequences. */
  readonly arrival: number;
  table: BlockTable;
  /** How many tokens have their keys and values in the cache. */
  computed: number;
  /** What it has outside of the cache while it waits. Null if nothing is there. */
  swapped: SwappedTokens | null;
  /** Whether nothing of it is computed for now, because its next token depends on other sequences. */
  isHeld: boolean;
  /** How often its blocks were taken from it. */
  preemptions: number;
  /** Whether its prompt has been counted for its tenant. */
  isCharged: boolean;
  /** How many tokens it found in the cache when it last began. */
  prefixHit: number;
}

/** Whether a sequence takes part in the step that runs. One that was removed meanwhile has no places. */
export function isInStep({ table }: Sequence): boolean {
  return table.length > 0;
}

/** Some tokens of a sequence that the next step computes. */
export interface ScheduledChunk {
  readonly sequence: Sequence;
  /** The place of the first token in the sequence. */
  readonly start: number;
  readonly count: number;
  /** Whether the chunk ends with the last token, whose scores choose the next one. */
  readonly isLast: boolean;
}
