import type { Operation } from '../../call/record.ts';

/** The algorithm that was the fastest in each case of a benchmark. It is plain data. */
export interface AlgorithmTable {
  /** The command that wrote the table. */
  readonly madeBy: string;
  readonly machine: string;
  /**
   * Rules are searched in this order. Only rules for the operation, for one or several hosts, and for one
   * number of ranks apply. This number is the largest `ranks` of these rules that is not above the size of the
   * group, or, if there is none, the smallest. The first rule whose bytes fit and whose algorithm may be used
   * decides.
   */
  readonly rules: readonly AlgorithmRule[];
}

/** The algorithm for calls of up to a certain length. */
export interface AlgorithmRule {
  readonly operation: Operation;
  readonly hosts: 'one' | 'several';
  readonly ranks: number;
  /** The rule holds up to this n of the operation's shape line, in bytes. null means that there is no limit. */
  readonly upToBytes: number | null;
  readonly algorithm: string;
}
