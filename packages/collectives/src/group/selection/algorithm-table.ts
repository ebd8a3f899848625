import type { Operation } from '../../call/record.ts';

/** Which algorithm was the fastest in which case, as a benchmark has found. It is plain data. */
export interface AlgorithmTable {
  /** The command that wrote the table. */
  readonly madeBy: string;
  readonly machine: string;
  /**
   * Only rules for the operation and for as many hosts (one or several) count. Of these, the rules hold whose
   * `ranks` is the largest that the group has, or else the smallest of all. Of these, the first one decides
   * whose bytes fit and whose algorithm may be used.
   */
  readonly rules: readonly AlgorithmRule[];
}

/** Up to which length of a call which algorithm is taken. */
export interface AlgorithmRule {
  readonly operation: Operation;
  readonly hosts: 'one' | 'several';
  readonly ranks: number;
  /** The rule holds up to this n of the operation's shape line, in bytes; null: without limit. */
  readonly upToBytes: number | null;
  readonly algorithm: string;
}
