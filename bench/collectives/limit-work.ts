import type { MemoryRegion } from '@shardwise/collectives';
import { operations, type Job, type OperationFacts } from './job.ts';
import { memoryKernel, type MemoryKernel } from './memory-kernel.ts';
import { MAX_BYTES } from './rank-work.ts';

const GRAIN_BYTES = 128;

/** The limit for ranks that share memory: the same loads, adds and stores without any group. */
export class LimitWork {
  readonly #kernel: MemoryKernel;
  readonly #words: Int32Array;
  readonly #counter: number;
  readonly #starts: readonly number[];
  readonly #rank: number;

  /** `counterByteOffset` is the place of a word, initially zero, that all ranks use to count. */
  constructor(
    memory: WebAssembly.Memory,
    regions: readonly MemoryRegion[],
    counterByteOffset: number,
    rank: number,
  ) {
    this.#kernel = memoryKernel(memory, regions.length);
    this.#words = new Int32Array(memory.buffer);
    this.#counter = counterByteOffset / 4;
    this.#starts = regions.map(({ byteOffset }) => byteOffset);
    this.#rank = rank;
    const own = this.#starts[rank] ?? 0;
    new Uint8Array(memory.buffer, own, 2 * MAX_BYTES).fill(0);
  }

  run({ operation, bytes, iterations }: Job): number {
    const turn = this.#turn(operation, bytes);
    this.#meet();
    const start = performance.now();
    for (let iteration = 0; iteration < iterations; iteration++) turn();
    return (performance.now() - start) / 1000 / iterations;
  }

  /** Returns a function that processes this rank's share of the bytes once. */
  #turn(operation: Job['operation'], bytes: number): () => void {
    const memory: OperationFacts['memory'] = operations[operation].memory;
    const size = this.#starts.length;
    const slice = Math.floor(bytes / size / GRAIN_BYTES) * GRAIN_BYTES;
    const slices = this.#starts.map((start) => start + this.#rank * slice);
    const [own = 0] = this.#starts.slice(this.#rank);
    const isRoot = this.#rank === 0;
    const isIdle = isRoot ? operation === 'broadcast' : operation === 'reduce';
    const next = this.#starts[(this.#rank + 1) % size] ?? 0;
    const copied = operation === 'allGather' ? bytes - slice : bytes;
    const turns: Record<OperationFacts['memory'], () => void> = {
      meet: () => this.#meet(),
      reduceToAll: () => this.#kernel.reduceToAll(slices, slice),
      reduceToOne:
        operation === 'reduce'
          ? () => this.#kernel.reduceToOne(this.#starts, bytes)
          : () => this.#kernel.reduceToOne(slices, slice),
      copy: () => this.#kernel.copy(own + MAX_BYTES, next, copied),
    };
    return isIdle ? () => {} : turns[memory];
  }

  /** Waits for all ranks by spinning on the counter. */
  #meet(): void {
    const size = this.#starts.length;
    const ticket = Atomics.add(this.#words, this.#counter, 1);
    const all = (Math.floor(ticket / size) + 1) * size;
    while (Atomics.load(this.#words, this.#counter) < all);
  }
}
