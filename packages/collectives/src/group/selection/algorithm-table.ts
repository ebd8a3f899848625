import type { Operation } from '../../call/record.ts';

/** The algorithm that was the fastest in each case of a benchmark. It is plain data. */
export interface AlgorithmTable {
  /** The command that wrote the table. */
  readonly madeBy: string;
  readonly machine: string;
  /**
   * Rules are searched in this order. Only rules for the operation and for one or several hosts apply. Of
   * these, only those with the largest `ranks` that the group has apply, or, if there are none, those with the
   * smallest `ranks`. The first of these whose bytes fit and whose algorithm may be used decides.
   */
  readonly rules: readonly AlgorithmRule[];
}

/** The algorithm for calls of up to a certain length. */
export interface AlgorithmRule {
  readonly operation: Operation;
  readonly hosts: 'one' | 'several';
  readonly ranks: number;
  /** The rule holds up to this n of the operation's shape line, in bytes; null: without limit. */
  readonly upToBytes: number | null;
  readonly algorithm: string;
}
