import { dtypes } from '@shardwise/core/spec';
import type { CallRecord, Operation } from './record.ts';

/** The operations that are counted: those of a group, and messages. */
export type CountedOperation = Operation | 'send' | 'recv';

/** How often an operation was called, and how many bytes it moved. */
export interface OperationCount {
  readonly calls: number;
  /** The sum over all calls of n of the operation's shape line, in bytes. */
  readonly bytes: number;
}

/** Counts the calls that one rank has issued on one group. */
export class Counters {
  readonly #counts = new Map<CountedOperation, { calls: number; bytes: number }>();

  add(operation: CountedOperation, bytes: number): void {
    const count = this.#counts.get(operation);
    if (count === undefined) {
      this.#counts.set(operation, { calls: 1, bytes });
    } else {
      count.calls += 1;
      count.bytes += bytes;
    }
  }

  addCall(record: CallRecord): void {
    const elementBytes = record.dtype === undefined ? 0 : dtypes[record.dtype].bytes;
    this.add(record.operation, record.elements * elementBytes);
  }

  of(operation: CountedOperation): OperationCount {
    return { calls: 0, bytes: 0, ...this.#counts.get(operation) };
  }

  /** The counts of the operations that were called. */
  entries(): readonly (readonly [CountedOperation, OperationCount])[] {
    return Array.from(this.#counts, ([operation, count]) => [operation, { ...count }] as const);
  }
}
