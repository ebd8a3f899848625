import { once } from 'node:events';
import { connect, createServer, Socket } from 'node:net';
import type { Store } from '@shardwise/core/spec';
import { operations, type Job } from './job.ts';
import { MAX_BYTES } from './rank-work.ts';

const CHUNK_BYTES = 1 << 20;
const WAIT_MS = 60_000;

/**
 * A ring of plain sockets. Each process sends to the next one as many bytes as a rank of the operation has to send at
 * least, and receives as many from the previous one.
 */
export class StreamWork {
  readonly #size: number;
  readonly #bytes: Uint8Array = new Uint8Array(2 * MAX_BYTES).fill(0);
  readonly #target: Uint8Array = new Uint8Array(CHUNK_BYTES).fill(0);
  #out: Socket | undefined;
  #received = 0;
  #expected = 0;
  #done: () => void = () => {};

  constructor(size: number) {
    this.#size = size;
  }

  /** Connects the ring. The receiving side connects, so that the kernel can read into memory of its choice. */
  async join(store: Store, rank: number): Promise<this> {
    const size = this.#size;
    const server = createServer({ noDelay: true }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
    const accepted = once(server, 'connection');
    await store.set(`stream/${rank}`, new TextEncoder().encode(String(port)));
    const before = await store.get(`stream/${(rank + size - 1) % size}`, { timeoutMs: WAIT_MS });
    connect({
      host: '127.0.0.1',
      port: Number(new TextDecoder().decode(before)),
      onread: { buffer: () => this.#target, callback: (byteLength) => this.#take(byteLength) },
    });
    const [out]: unknown[] = await accepted;
    if (out instanceof Socket) this.#out = out;
    return this;
  }

  async run({ operation, bytes, iterations }: Job): Promise<number> {
    // A barrier still needs a message of some length.
    const sent = Math.max(Math.round(operations[operation].busFactor(this.#size) * bytes), 8);
    // After messages have gone once around the ring, all processes have begun.
    for (let turn = 1; turn < this.#size; turn++) await this.#exchange(8);
    const start = performance.now();
    for (let iteration = 0; iteration < iterations; iteration++) await this.#exchange(sent);
    return (performance.now() - start) / 1000 / iterations;
  }

  async #exchange(byteLength: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#expected += byteLength;
    this.#done = resolve;
    for (let start = 0; start < byteLength; start += CHUNK_BYTES) {
      this.#out?.write(this.#bytes.subarray(start, Math.min(start + CHUNK_BYTES, byteLength)));
    }
    this.#take(0);
    return promise;
  }

  #take(byteLength: number): boolean {
    this.#received += byteLength;
    if (this.#received >= this.#expected) this.#done();
    return true;
  }
}
