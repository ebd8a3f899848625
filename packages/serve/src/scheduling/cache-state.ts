import type { Scheduler } from './scheduler.ts';
import type { Sequence } from './sequence.ts';

/** A sequence, and which blocks of the cache it has. */
export interface SequenceState {
  /** Its number among all sequences of an engine. */
  readonly number: number;
  readonly state: 'running' | 'waiting';
  readonly tokens: number;
  readonly promptLength: number;
  /** How many of its tokens have their keys and values in the cache. */
  readonly computed: number;
  /** Its blocks, in the order of its tokens. Sequences that begin alike have the same ones. */
  readonly blocks: readonly number[];
  /** How often its blocks were taken from it. */
  readonly preemptions: number;
}

/** Who has which blocks of a paged cache, for a picture of it. */
export interface CacheState {
  readonly blockCount: number;
  readonly blockSize: number;
  readonly sequences: readonly SequenceState[];
  /** Blocks that nobody uses, whose content a prompt may begin with. */
  readonly keptBlocks: readonly number[];
}

export function cacheStateOf({ allocator, blockSize, running, waiting }: Scheduler): CacheState {
  const stateOf = (sequence: Sequence, state: SequenceState['state']): SequenceState => ({
    number: sequence.number,
    state,
    tokens: sequence.tokens.length,
    promptLength: sequence.promptLength,
    computed: sequence.computed,
    blocks: [...sequence.table.blocks],
    preemptions: sequence.preemptions,
  });
  return {
    blockCount: allocator.blockCount,
    blockSize,
    sequences: [
      ...running.map((sequence) => stateOf(sequence, 'running')),
      ...waiting.map((sequence) => stateOf(sequence, 'waiting')),
    ],
    keptBlocks: allocator.keptBlocks,
  };
}
