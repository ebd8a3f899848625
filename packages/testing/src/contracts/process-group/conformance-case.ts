import type { ProcessGroup } from '@shardwise/core/spec';

/** What a rank does, and the expected result in closed form. In the names of cases, R is the rank and W the size. */
export interface ConformanceCase {
  /** The result must be data that can be posted. */
  readonly run: (group: ProcessGroup) => Promise<unknown>;
  readonly expected: (rank: number, size: number) => unknown;
}

/** Cases by name. */
export type ConformanceCases = Readonly<Record<string, ConformanceCase>>;
