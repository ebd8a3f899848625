import type { Operation } from '../../call/record.ts';

/** Which algorithm was the fastest where, as a benchmark has found. Plain data. */
export interface AlgorithmTable {
  /** The command that wrote it. */
  readonly madeBy: string;
  readonly machine: string;
  /**
   * Of the rules for an operation and as many hosts, those for the most ranks that a group has at
   * least count, or else for the fewest; of these the first whose bytes fit and that may be used.
   */
  readonly rules: readonly AlgorithmRule[];
}

export interface AlgorithmRule {
  readonly operation: Operation;
  readonly hosts: 'one' | 'several';
  readonly ranks: number;
  /** n of the operation's shape line, in bytes; null: without limit. */
  readonly upToBytes: number | null;
  readonly algorithm: string;
}
