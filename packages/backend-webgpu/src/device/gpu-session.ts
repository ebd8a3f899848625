import { BackendError, type ShardwiseError } from '@shardwise/core/spec';
import { bufferUsage, mapModeRead } from './gpu-constants.ts';
import type { GpuBuffer } from './gpu-buffer.ts';
import { PassTimes } from './pass-times.ts';

/** Submissions under way, at most: a queue that grows without bound makes a device slow. */
const mostSubmissions = 8;
/** Of those, programs that update parameters. */
const mostSteps = 2;

/** Memory by which values are read is kept up to this size, for so many reads of a size. */
const mostStagingBytes = 1 << 24;
const leastStagingBytes = 256;
const mostStaging = 4;

/** A kernel that is compiled, or is being compiled. */
export interface Pipeline {
  compiled: GPUComputePipeline | undefined;
  readonly ready: Promise<GPUComputePipeline>;
}

interface Submission {
  readonly isStep: boolean;
  readonly done: Promise<void>;
}

/** A device with its queue, what was compiled for it, and what has gone wrong on it. */
export class GpuSession {
  readonly device: GPUDevice;
  readonly #pipelines = new Map<string, Pipeline>();
  readonly #underWay = new Set<Submission>();
  readonly #staging = new Map<number, GPUBuffer[]>();
  readonly #layouts = new Map<number, GPUBindGroupLayout>();
  readonly #times: PassTimes | undefined;
  #failure: Error | undefined;
  /** Settles when the last call that waits has taken effect; undefined where none waits. */
  #last: Promise<void> | undefined;
  #submissions = 0;
  #waits = 0;
  #reads = 0;
  #isClosed = false;

  constructor(device: GPUDevice) {
    this.device = device;
    this.#times = device.features.has('timestamp-query') ? new PassTimes(device) : undefined;
    device.addEventListener('uncapturederror', ({ error }) =>
      this.fail(deviceError(error.message)),
    );
    void this.#watch();
  }

  async #watch(): Promise<void> {
    const { message } = await this.device.lost;
    if (!this.#isClosed) this.fail(deviceError(`the device was lost: ${message}`));
  }

  /** The first thing that went wrong: all later calls end with it. */
  fail = (error: unknown): void => {
    this.#failure ??= error instanceof Error ? error : new Error(String(error));
  };

  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Destroys memory when the calls that use it have taken effect. */
  destroy = (buffer: GPUBuffer): void => {
    const destroyed = this.inOrder(() => buffer.destroy());
    if (destroyed instanceof Promise) destroyed.catch(this.fail);
  };

  close(): void {
    this.#isClosed = true;
    this.device.destroy();
  }

  /**
   * Has `call` take effect after all earlier calls: at once, unless one of them waits, or it has something of its own to wait for.
   */
  inOrder<T>(call: () => T, before?: Promise<unknown>): T | Promise<T> {
    const last = this.#last;
    if (last === undefined && before === undefined) return call();
    const done = inTurn(call, last, before);
    const isDone = (): void => {
      if (this.#last === settled) this.#last = undefined;
    };
    const settled: Promise<void> = done.then(isDone, isDone);
    this.#last = settled;
    return done;
  }

  /**
   * Pipelines are found by their text: kernels that differ in nothing else share one. Those that are asked for together are compiled
   * in parallel. `ready` rejects with BackendError where the device refuses the text.
   */
  pipeline(text: string, bindings: number, label: string): Pipeline {
    const known = this.#pipelines.get(text);
    if (known !== undefined) return known;
    const module = this.device.createShaderModule({ code: text, label });
    const layout = this.device.createPipelineLayout({ bindGroupLayouts: [this.layout(bindings)] });
    const compiling = this.device.createComputePipelineAsync({
      layout,
      label,
      compute: { module, entryPoint: 'main' },
    });
    const pipeline: Pipeline = { compiled: undefined, ready: this.#compiled(compiling, label) };
    // A run hears of it; a pipeline that was asked for by a run that failed before has no other listener.
    pipeline.ready.then(
      (compiled) => (pipeline.compiled = compiled),
      () => this.#pipelines.delete(text),
    );
    this.#pipelines.set(text, pipeline);
    return pipeline;
  }

  async #compiled(
    compiling: Promise<GPUComputePipeline>,
    label: string,
  ): Promise<GPUComputePipeline> {
    try {
      return await compiling;
    } catch (cause) {
      // A device that was lost refuses all pipelines.
      this.check();
      throw refusedKernel(label, cause);
    }
  }

  get compiledPipelines(): number {
    return this.#pipelines.size;
  }

  get submissions(): number {
    return this.#submissions;
  }

  /** How often a program waited until the device had room for it. */
  get waits(): number {
    return this.#waits;
  }

  /** How often memory of the device was mapped to be read. */
  get reads(): number {
    return this.#reads;
  }

  /** Parameters, then buffers. */
  layout(bindings: number): GPUBindGroupLayout {
    const known = this.#layouts.get(bindings);
    if (known !== undefined) return known;
    const compute = 4;
    const layout = this.device.createBindGroupLayout({
      entries: Array.from({ length: bindings + 1 }, (_, binding) => ({
        binding,
        visibility: compute,
        buffer: binding === 0 ? { type: 'uniform', hasDynamicOffset: true } : { type: 'storage' },
      })),
    });
    this.#layouts.set(bindings, layout);
    return layout;
  }

  /** Settles when the device may be given more: at most two steps are under way, so that it never idles. */
  async room(): Promise<void> {
    let oldest = this.#oldestInTheWay();
    if (oldest !== undefined) this.#waits += 1;
    for (; oldest !== undefined; oldest = this.#oldestInTheWay()) await oldest.done;
    this.check();
  }

  #oldestInTheWay(): Submission | undefined {
    const underWay = [...this.#underWay];
    const steps = underWay.filter(({ isStep }) => isStep);
    if (steps.length >= mostSteps) return steps[0];
    return underWay.length >= mostSubmissions ? underWay[0] : undefined;
  }

  /** A pass whose time `onComputed` is told with the next read, where the device takes times. */
  beginPass(
    encoder: GPUCommandEncoder,
    onComputed: ((durationMs: number) => void) | undefined,
  ): GPUComputePassEncoder {
    const times = this.#times;
    if (times === undefined || onComputed === undefined) return encoder.beginComputePass();
    // Nobody has read for long.
    if (times.isFull) this.#readBoth(0, () => {}).catch(this.fail);
    return encoder.beginComputePass({ timestampWrites: times.writesOf(onComputed) });
  }

  get takesTimes(): boolean {
    return this.#times !== undefined;
  }

  /** Hands commands to the device. `isStep`: they update parameters. */
  submit(commands: GPUCommandBuffer, isStep: boolean): void {
    this.check();
    const { queue } = this.device;
    queue.submit([commands]);
    this.#submissions += 1;
    const done = queue.onSubmittedWorkDone().catch(this.fail);
    const submission = { isStep, done: done.finally(() => this.#underWay.delete(submission)) };
    this.#underWay.add(submission);
  }

  /** The bytes as they are when all that was submitted so far is done. */
  async read(memory: GPUBuffer, byteOffset: number, byteLength: number): Promise<Uint8Array> {
    this.check();
    if (byteLength === 0) return new Uint8Array();
    const wordBytes = Math.ceil(byteLength / 4) * 4;
    const bytes = await this.inOrder(() =>
      this.#readBoth(wordBytes, (encoder, staging) =>
        encoder.copyBufferToBuffer(memory, byteOffset, staging, 0, wordBytes),
      ),
    );
    return byteLength === wordBytes ? bytes : bytes.slice(0, byteLength);
  }

  /** Settles when everything that was called so far is done. */
  async sync(): Promise<void> {
    await this.inOrder(() => this.device.queue.onSubmittedWorkDone());
    this.check();
  }

  /** Reads what `copy` copies to the beginning of memory, and the times of passes that are there by then. */
  async #readBoth(
    byteLength: number,
    copy: (encoder: GPUCommandEncoder, staging: GPUBuffer) => void,
  ): Promise<Uint8Array> {
    const timesAt = Math.ceil(byteLength / 8) * 8;
    const size = timesAt + (this.#times?.byteLength ?? 0);
    const staging = this.#takeStaging(size);
    const encoder = this.device.createCommandEncoder();
    copy(encoder, staging);
    const tellTimes = this.#times?.encode(encoder, staging, timesAt);
    this.device.queue.submit([encoder.finish()]);
    this.#reads += 1;
    try {
      await staging.mapAsync(mapModeRead, 0, size);
      this.check();
      const mapped = staging.getMappedRange(0, size);
      const bytes = new Uint8Array(mapped.slice(0, byteLength));
      const times = mapped.slice(timesAt);
      staging.unmap();
      this.#keepStaging(staging);
      tellTimes?.(times);
      return bytes;
    } catch (error) {
      staging.destroy();
      this.check();
      throw error;
    }
  }

  /** A mapped buffer is not the device's, so reads that are under way have one each, of a power of two. */
  #takeStaging(leastBytes: number): GPUBuffer {
    const size = Math.max(leastStagingBytes, 2 ** Math.ceil(Math.log2(leastBytes)));
    const kept = this.#staging.get(size)?.pop();
    if (kept !== undefined) return kept;
    if (size > mostStagingBytes) return this.#createStaging(leastBytes);
    return this.#createStaging(size);
  }

  #createStaging(size: number): GPUBuffer {
    const usage = bufferUsage.mapRead | bufferUsage.copyDestination;
    return this.device.createBuffer({ size, usage });
  }

  #keepStaging(staging: GPUBuffer): void {
    const ofSize = this.#staging.get(staging.size) ?? [];
    if (staging.size > mostStagingBytes || ofSize.length >= mostStaging) {
      staging.destroy();
      return;
    }
    ofSize.push(staging);
    this.#staging.set(staging.size, ofSize);
  }

  write({ memory, byteOffset, allocation }: GpuBuffer, bytes: Uint8Array): void {
    this.check();
    if (bytes.byteLength === 0) return;
    const size = Math.ceil(bytes.byteLength / 4) * 4;
    // Not every implementation takes views of shared memory, and none takes parts of a word.
    const words = new Uint8Array(size);
    words.set(bytes);
    allocation.note(byteOffset, size, new Int32Array(words.buffer));
    const written = this.inOrder(() => this.device.queue.writeBuffer(memory, byteOffset, words));
    if (written instanceof Promise) written.catch(this.fail);
  }
}

async function inTurn<T>(
  call: () => T,
  last: Promise<void> | undefined,
  before: Promise<unknown> | undefined,
): Promise<T> {
  await last;
  await before;
  return call();
}

function refusedKernel(label: string, cause: unknown): ShardwiseError {
  return new BackendError(
    {
      asked: `a kernel for ${label}`,
      found: `the device refuses it: ${cause instanceof Error ? cause.message : String(cause)}`,
      todo: 'Report this as a bug, with the name of the adapter; compute on another backend until then',
    },
    { kernel: label },
    { cause },
  );
}

function deviceError(message: string): ShardwiseError {
  return new BackendError({
    asked: 'the device to compute',
    found: message,
    todo: 'Start this rank again, from a checkpoint if there is one',
  });
}
