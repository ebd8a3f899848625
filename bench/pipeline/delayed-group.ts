import type {
  Backend,
  CallOptions,
  InputOptions,
  ProcessGroup,
  ReduceOp,
  TypedBytes,
} from '@shardwise/core/spec';

type MessageOptions = CallOptions & { readonly tag?: number };

/** By how much messages are delayed. All groups that are split from each other share one such number. */
export interface Delay {
  latencyMs: number;
}

const stampBytes = Float64Array.BYTES_PER_ELEMENT;

/**
 * A group whose messages between ranks take longer, as over a link with this latency. Collectives are not delayed. A
 * message carries the time at which it was sent, and its receiver waits for the rest of the latency. Timers of the
 * sender would fire late, because it computes. All ranks change the delay at a barrier.
 */
export class DelayedGroup implements ProcessGroup {
  readonly specificationVersion = 1;
  readonly #group: ProcessGroup;
  readonly #delay: Delay;
  readonly #device: Backend;

  /** Messages are stored in the device's memory, like those of pipelines. */
  constructor(group: ProcessGroup, delay: Delay, device: Backend) {
    this.#group = group;
    this.#delay = delay;
    this.#device = device;
  }

  get rank(): number {
    return this.#group.rank;
  }

  get size(): number {
    return this.#group.size;
  }

  async send(buffer: TypedBytes, to: number, options?: MessageOptions): Promise<void> {
    if (this.#delay.latencyMs === 0) return this.#group.send(buffer, to, options);
    const { byteLength } = buffer.bytes;
    const memory = this.#device.alloc(byteLength + stampBytes);
    const stamped = this.#device.map(memory);
    if (stamped === undefined) throw new RangeError('a device with memory of its own');
    stamped.set(buffer.bytes);
    new DataView(stamped.buffer, stamped.byteOffset).setFloat64(byteLength, now());
    try {
      await this.#group.send({ bytes: stamped, dtype: 'u8' }, to, options);
    } finally {
      this.#device.free(memory);
    }
  }

  async recv(buffer: TypedBytes, from: number, options?: MessageOptions): Promise<void> {
    const { latencyMs } = this.#delay;
    if (latencyMs === 0) return this.#group.recv(buffer, from, options);
    const { byteLength } = buffer.bytes;
    const stamped = new Uint8Array(byteLength + stampBytes);
    await this.#group.recv({ bytes: stamped, dtype: 'u8' }, from, options);
    const leftMs = new DataView(stamped.buffer).getFloat64(byteLength) + latencyMs - now();
    if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs));
    buffer.bytes.set(stamped.subarray(0, byteLength));
  }

  async split(
    color: number | undefined,
    key: number,
    options?: CallOptions,
  ): Promise<ProcessGroup | undefined> {
    const group = await this.#group.split(color, key, options);
    return group && new DelayedGroup(group, this.#delay, this.#device);
  }

  allReduce(buffer: TypedBytes, op: ReduceOp, options?: InputOptions): Promise<void> {
    return this.#group.allReduce(buffer, op, options);
  }

  allGather(input: TypedBytes, output: TypedBytes, options?: CallOptions): Promise<void> {
    return this.#group.allGather(input, output, options);
  }

  reduceScatter(
    input: TypedBytes,
    output: TypedBytes,
    op: ReduceOp,
    options?: CallOptions,
  ): Promise<void> {
    return this.#group.reduceScatter(input, output, op, options);
  }

  allToAll(
    input: TypedBytes,
    output: TypedBytes,
    options?: Parameters<ProcessGroup['allToAll']>[2],
  ): Promise<void> {
    return this.#group.allToAll(input, output, options);
  }

  broadcast(buffer: TypedBytes, root: number, options?: InputOptions): Promise<void> {
    return this.#group.broadcast(buffer, root, options);
  }

  reduce(buffer: TypedBytes, root: number, op: ReduceOp, options?: InputOptions): Promise<void> {
    return this.#group.reduce(buffer, root, op, options);
  }

  gather(
    input: TypedBytes,
    output: TypedBytes | undefined,
    root: number,
    options?: CallOptions,
  ): Promise<void> {
    return this.#group.gather(input, output, root, options);
  }

  scatter(
    input: TypedBytes | undefined,
    output: TypedBytes,
    root: number,
    options?: CallOptions,
  ): Promise<void> {
    return this.#group.scatter(input, output, root, options);
  }

  barrier(options?: CallOptions): Promise<void> {
    return this.#group.barrier(options);
  }

  close(reason?: Error): void {
    this.#group.close(reason);
  }
}

/** Returns a time. All threads of the process share this clock. */
function now(): number {
  return performance.timeOrigin + performance.now();
}
