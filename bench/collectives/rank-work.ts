import type { ProcessGroup, TypedBytes } from '@shardwise/core/spec';
import type { Job, OperationName } from './job.ts';

/** The largest size in bytes. Each rank has two buffers of this size. */
export const MAX_BYTES: number = 64 << 20;

/** One rank of a group that does jobs. */
export class RankWork {
  readonly #group: ProcessGroup;
  readonly #first: Uint8Array;
  readonly #second: Uint8Array;

  /** `memory` must have room for two buffers of MAX_BYTES. */
  constructor(group: ProcessGroup, memory: Uint8Array) {
    this.#group = group;
    // Sums of zeros are zeros, however often they are added. Filling the memory makes the system allocate its pages.
    this.#first = memory.subarray(0, MAX_BYTES).fill(0);
    this.#second = memory.subarray(MAX_BYTES, 2 * MAX_BYTES).fill(0);
  }

  /** Returns the seconds per iteration between two barriers. */
  async run({ operation, bytes, iterations }: Job): Promise<number> {
    const call = this.#call(operation, bytes);
    await this.#group.barrier();
    const start = performance.now();
    for (let iteration = 0; iteration < iterations; iteration++) await call();
    return (performance.now() - start) / 1000 / iterations;
  }

  #call(operation: OperationName, byteLength: number): () => Promise<unknown> {
    const group = this.#group;
    const { rank, size } = group;
    const first = f32(this.#first, byteLength);
    const second = f32(this.#second, byteLength);
    // The part lies in the whole, as in the two halves of an all-reduce.
    const partBytes = byteLength / size;
    const part = f32(this.#first.subarray(rank * partBytes), partBytes);
    const calls: Record<OperationName, () => () => Promise<unknown>> = {
      allReduce: () => () => group.allReduce(first, 'sum'),
      allGather: () => () => group.allGather(part, first),
      reduceScatter: () => () => group.reduceScatter(first, part, 'sum'),
      allToAll: () => () => group.allToAll(first, second),
      broadcast: () => () => group.broadcast(first, 0),
      reduce: () => () => group.reduce(first, 0, 'sum'),
      sendRecv: () => {
        const [next, previous] = [(rank + 1) % size, (rank + size - 1) % size];
        return () => Promise.all([group.send(first, next), group.recv(second, previous)]);
      },
      barrier: () => () => group.barrier(),
    };
    return calls[operation]();
  }
}

function f32(memory: Uint8Array, byteLength: number): TypedBytes {
  return { bytes: memory.subarray(0, byteLength), dtype: 'f32' };
}
