import { deviceError, refusedCommands, refusedKernel, tooLong } from './device-errors.ts';
import { MAP_MODE_READ } from './gpu-constants.ts';
import type { GpuBuffer } from './gpu-buffer.ts';
import { PassTimes } from './pass-times.ts';
import { Staging } from './staging.ts';
import { type SubmissionOptions, Submissions } from './submissions.ts';
import type { Task } from './task.ts';
import { WorkLimit } from './work-limit.ts';

/** Up to this many words, the memory from which they are uploaded is kept for the next write. */
const MAX_UPLOAD_WORDS = 1 << 24;

/** A kernel that is compiled or being compiled. */
export interface Pipeline {
  compiled: GPUComputePipeline | undefined;
  readonly ready: Promise<GPUComputePipeline>;
}

export interface SessionOptions {
  /** How long one submission should take. Longer work is divided. */
  readonly submissionMs: number;
  /** How long one submission may take before the device is given up. */
  readonly timeoutMs: number;
}

/** A device with its queue, the pipelines that were compiled for it, and the first failure on it. */
export class GpuSession {
  readonly device: GPUDevice;
  readonly #pipelines = new Map<string, Pipeline>();
  readonly #limit: WorkLimit;
  readonly #submissions: Submissions;
  readonly #staging: Staging;
  readonly #layouts = new Map<number, GPUBindGroupLayout>();
  readonly #times: PassTimes | undefined;
  #failure: Error | undefined;
  /** Callbacks of calls that wait for the device. A failure rejects them all. */
  readonly #waiting = new Set<(failure: Error) => void>();
  /** Settles when the last waiting call has taken effect. Undefined if no call waits. */
  #last: Promise<void> | undefined;
  #waits = 0;
  #reads = 0;
  #bindGroups = 0;
  #isClosed = false;
  /** The memory from which words are uploaded. */
  #upload = new ArrayBuffer(0);

  constructor(device: GPUDevice, { submissionMs, timeoutMs }: SessionOptions) {
    this.device = device;
    this.#staging = new Staging(device);
    this.#limit = new WorkLimit(submissionMs);
    this.#submissions = new Submissions({
      limit: this.#limit,
      timeoutMs,
      onTimeout: (task) => this.fail(tooLong(task, timeoutMs)),
    });
    this.#times = device.features.has('timestamp-query') ? new PassTimes(device) : undefined;
    device.addEventListener('uncapturederror', ({ error }) =>
      this.fail(deviceError(error.message, this.#submissions.oldest)),
    );
    void this.#watch();
  }

  async #watch(): Promise<void> {
    const { message } = await this.device.lost;
    if (!this.#isClosed)
      this.fail(deviceError(`the device was lost: ${message}`, this.#submissions.oldest));
  }

  /** Records the first thing that went wrong. All later calls end with it. */
  fail = (error: unknown): void => {
    const failure = error instanceof Error ? error : new Error(String(error));
    this.#failure ??= failure;
    for (const reject of this.#waiting) reject(this.#failure);
    this.#waiting.clear();
    this.#submissions.end();
  };

  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Destroys a buffer when the calls that use it have taken effect. */
  destroy = (buffer: GPUBuffer): void => {
    const destroyed = this.inOrder(() => buffer.destroy());
    if (destroyed instanceof Promise) destroyed.catch(this.fail);
  };

  close(): void {
    this.#isClosed = true;
    this.#submissions.end();
    this.device.destroy();
  }

  /**
   * Has `call` take effect after all earlier calls. That is at once, unless one of them waits or `call` has to wait for
   * `before`.
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
   * The pipeline for a text. Kernels with the same text share one. Pipelines that are asked for together are compiled
   * in parallel. `ready` rejects with BackendError if the device refuses the text.
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
    // A run awaits `ready`. If that run failed earlier, nothing else handles the rejection.
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
      // A lost device refuses all pipelines, and then its failure is the error to report.
      this.check();
      throw refusedKernel(label, cause);
    }
  }

  get compiledPipelines(): number {
    return this.#pipelines.size;
  }

  get submissions(): number {
    return this.#submissions.count;
  }

  /** The most work of one submission. */
  get workLimit(): number {
    return this.#limit.work;
  }

  /** How often a program waited until the device had room for it. */
  get waits(): number {
    return this.#waits;
  }

  /** How often memory of the device was mapped to be read. */
  get reads(): number {
    return this.#reads;
  }

  /** The layout of a bind group: the parameters, then this many buffers. */
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

  /** The bind group of these buffers: the parameters, then the others. */
  bindGroup(buffers: readonly GPUBufferBinding[], label: string): GPUBindGroup {
    this.#bindGroups += 1;
    return this.device.createBindGroup({
      label,
      layout: this.layout(buffers.length - 1),
      entries: buffers.map((resource, binding) => ({ binding, resource })),
    });
  }

  /** The number of bind groups that were made so far. */
  get bindGroups(): number {
    return this.#bindGroups;
  }

  /**
   * Settles when the device may be given more work. At most two steps are under way, so that the device never idles.
   */
  async room(): Promise<void> {
    let done = this.#submissions.inTheWay();
    if (done !== undefined) this.#waits += 1;
    for (; done !== undefined; done = this.#submissions.inTheWay()) await this.#unlessFailed(done);
    this.check();
  }

  /**
   * Resolves to what `waited` gives, or rejects with the failure of the device, after which `waited` may never settle.
   */
  async #unlessFailed<T>(waited: Promise<T>): Promise<T> {
    this.check();
    const { promise: failed, reject } = Promise.withResolvers<never>();
    this.#waiting.add(reject);
    try {
      return await Promise.race([waited, failed]);
    } finally {
      this.#waiting.delete(reject);
    }
  }

  /** Returns what `call` gives, and a promise that rejects if the device refuses one of its commands. */
  checked<T>(task: Task, call: () => T): { readonly result: T; readonly accepted: Promise<void> } {
    this.device.pushErrorScope('validation');
    try {
      const result = call();
      return { result, accepted: this.#accepted(task) };
    } catch (error) {
      this.#accepted(task).catch(this.fail);
      throw error;
    }
  }

  async #accepted(task: Task): Promise<void> {
    const error = await this.#unlessFailed(this.device.popErrorScope());
    if (error !== null) this.fail(refusedCommands(task, error.message));
    this.check();
  }

  /** Begins a pass. If the device has timestamps, `onComputed` is told the time of the pass with the next read. */
  beginPass(
    encoder: GPUCommandEncoder,
    onComputed: ((durationMs: number) => void) | undefined,
  ): GPUComputePassEncoder {
    const times = this.#times;
    if (times === undefined || onComputed === undefined) return encoder.beginComputePass();
    // All times are taken because nobody has read for long.
    if (times.isFull) this.#readBoth(new Uint8Array(), 0, () => {}).catch(this.fail);
    return encoder.beginComputePass({ timestampWrites: times.writesOf(onComputed) });
  }

  get takesTimes(): boolean {
    return this.#times !== undefined;
  }

  /** Hands commands to the device. */
  submit(commands: GPUCommandBuffer, options: SubmissionOptions): void {
    this.check();
    const { queue } = this.device;
    queue.submit([commands]);
    const done = queue.onSubmittedWorkDone();
    done.catch(this.fail);
    this.#submissions.add(options, done);
  }

  /** Reads the bytes as they are when everything that was submitted so far is done. */
  async read(
    memory: GPUBuffer,
    byteOffset: number,
    byteLength: number,
    target: Uint8Array = new Uint8Array(byteLength),
  ): Promise<Uint8Array> {
    this.check();
    if (byteLength > 0) await this.inOrder(() => this.readNow(memory, byteOffset, target));
    return target;
  }

  /** Does what `read` does, when no earlier call is still waiting. WebGPU copies whole words. */
  async readNow(memory: GPUBuffer, byteOffset: number, target: Uint8Array): Promise<Uint8Array> {
    const words = Math.ceil(target.byteLength / 4) * 4;
    await this.#readBoth(target, words, (encoder, staging) =>
      encoder.copyBufferToBuffer(memory, byteOffset, staging, 0, words),
    );
    return target;
  }

  /** Settles when all calls so far are done. */
  async sync(): Promise<void> {
    await this.#unlessFailed(
      Promise.resolve(this.inOrder(() => this.device.queue.onSubmittedWorkDone())),
    );
    this.check();
  }

  /**
   * Has `copy` copy to the beginning of mapped memory, and reads that into `target`. Also tells the times of passes
   * that are known by then.
   */
  async #readBoth(
    target: Uint8Array,
    byteLength: number,
    copy: (encoder: GPUCommandEncoder, staging: GPUBuffer) => void,
  ): Promise<void> {
    const timesAt = Math.ceil(byteLength / 8) * 8;
    const size = timesAt + (this.#times?.byteLength ?? 0);
    const staging = this.#staging.take(size);
    const encoder = this.device.createCommandEncoder();
    copy(encoder, staging);
    const tellTimes = this.#times?.encode(encoder, staging, timesAt);
    this.device.queue.submit([encoder.finish()]);
    this.#reads += 1;
    try {
      await this.#unlessFailed(staging.mapAsync(MAP_MODE_READ, 0, size));
      this.check();
      const mapped = staging.getMappedRange(0, size);
      target.set(new Uint8Array(mapped, 0, target.byteLength));
      const times = mapped.slice(timesAt);
      staging.unmap();
      this.#staging.keep(staging);
      tellTimes?.(times);
    } catch (error) {
      staging.destroy();
      this.check();
      throw error;
    }
  }

  write({ memory, byteOffset, allocation }: GpuBuffer, bytes: Uint8Array): void {
    this.check();
    if (bytes.byteLength === 0) return;
    // Some implementations refuse views of shared memory, and all of them write whole words.
    const words = this.#wordsFor(Math.ceil(bytes.byteLength / 4));
    words.set(bytes);
    words.fill(0, bytes.byteLength);
    const { byteLength } = words;
    allocation.note(byteOffset, byteLength, new Int32Array(words.buffer, 0, byteLength / 4));
    const written = this.inOrder(() => this.device.queue.writeBuffer(memory, byteOffset, words));
    if (written instanceof Promise) written.catch(this.fail);
  }

  /** Memory from which words are written. It is reused, except for writes that have to wait for other calls. */
  #wordsFor(words: number): Uint8Array<ArrayBuffer> {
    if (this.#last !== undefined || words > MAX_UPLOAD_WORDS) return new Uint8Array(4 * words);
    if (this.#upload.byteLength < 4 * words) this.#upload = new ArrayBuffer(4 * words);
    return new Uint8Array(this.#upload, 0, 4 * words);
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
