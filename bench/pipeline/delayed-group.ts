import type {
  Backend,
  CallOptions,
  InputOptions,
  ProcessGroup,
  ReduceOp,
  TypedBytes,
} from '@shardwise/core/spec';

type MessageOptions = CallOptions & { readonly tag?: number };

/** How long messages take more than they do anyway: one number for all groups that are split from each other. */
export interface Delay {
  latencyMs: number;
}

const stampBytes = Float64Array.BYTES_PER_ELEMENT;

/**
 * A group between whose ranks messages take longer, as over a link with that latency; collectives take as long as they
 * do. A message carries the time at which it was sent, and whoever receives it waits for the rest of its latency: timers
 * of a sender would fire late, as it computes. All ranks change the delay at a barrier.
 */
export class DelayedGroup implements ProcessGroup {
  readonly #group: ProcessGroup;
  readonly #delay: Delay;
  readonly #device: Backend;

  /** Messages lie in the device's memory, as those of pipelines do. */
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

/** Of the threads of a process, which have one clock. */
function now(): number {
  return performance.timeOrigin + performance.now();
}
