import { dtypes } from '@shardwise/core/spec';
import type { CallRecord, Operation } from './record.ts';

export type CountedOperation = Operation | 'send' | 'recv';

export interface OperationCount {
  readonly calls: number;
  /** n of the operation's shape line, in bytes. */
  readonly bytes: number;
}

/** What one rank has issued on one group. */
export class Counters {
  readonly #counts = new Map<CountedOperation, OperationCount>();

  add(operation: CountedOperation, bytes: number): void {
    const { calls, bytes: before } = this.of(operation);
    this.#counts.set(operation, { calls: calls + 1, bytes: before + bytes });
  }

  addCall(record: CallRecord): void {
    const elementBytes = record.dtype === undefined ? 0 : dtypes[record.dtype].bytes;
    this.add(record.operation, record.elements * elementBytes);
  }

  of(operation: CountedOperation): OperationCount {
    return this.#counts.get(operation) ?? { calls: 0, bytes: 0 };
  }

  /** Only operations that were called. */
  entries(): readonly (readonly [CountedOperation, OperationCount])[] {
    return [...this.#counts];
  }
}
