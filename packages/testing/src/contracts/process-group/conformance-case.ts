import type { ProcessGroup } from '@shardwise/core/spec';

/** What a rank does, and what it must come to, in closed form. R = rank, W = size. */
export interface ConformanceCase {
  /** What it returns can be posted. */
  readonly run: (group: ProcessGroup) => Promise<unknown>;
  readonly expected: (rank: number, size: number) => unknown;
}

export type ConformanceCases = Readonly<Record<string, ConformanceCase>>;
