import { deviceError, refusedCommands, refusedKernel, tooLong } from './device-errors.ts';
import { mapModeRead } from './gpu-constants.ts';
import type { GpuBuffer } from './gpu-buffer.ts';
import { PassTimes } from './pass-times.ts';
import { Staging } from './staging.ts';
import { type SubmissionOptions, Submissions } from './submissions.ts';
import type { Task } from './task.ts';
import { WorkLimit } from './work-limit.ts';

/** Memory for so much that is written is kept. */
const mostUploadWords = 1 << 24;

/** A kernel that is compiled, or is being compiled. */
export interface Pipeline {
  compiled: GPUComputePipeline | undefined;
  readonly ready: Promise<GPUComputePipeline>;
}

export interface SessionOptions {
  /** How long one submission is to take: longer work is divided. */
  readonly submissionMs: number;
  /** How long one may take, until the device is given up. */
  readonly timeoutMs: number;
}

/** A device with its queue, what was compiled for it, and what has gone wrong on it. */
export class GpuSession {
  readonly device: GPUDevice;
  readonly #pipelines = new Map<string, Pipeline>();
  readonly #limit: WorkLimit;
  readonly #submissions: Submissions;
  readonly #staging: Staging;
  readonly #layouts = new Map<number, GPUBindGroupLayout>();
  readonly #times: PassTimes | undefined;
  #failure: Error | undefined;
  /** Those that wait for the device, to be told of a failure. */
  readonly #waiting = new Set<(failure: Error) => void>();
  /** Settles when the last call that waits has taken effect; undefined where none waits. */
  #last: Promise<void> | undefined;
  #waits = 0;
  #reads = 0;
  #isClosed = false;
  /** What is written goes through here. */
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

  /** The first thing that went wrong: all later calls end with it. */
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

  /** Destroys memory when the calls that use it have taken effect. */
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
    return this.#submissions.count;
  }

  /** Work of one submission, at most. */
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
    let done = this.#submissions.inTheWay();
    if (done !== undefined) this.#waits += 1;
    for (; done !== undefined; done = this.#submissions.inTheWay()) await this.#unlessFailed(done);
    this.check();
  }

  /** What `waited` gives, or the failure of the device, which may never give it. */
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

  /** What `call` gives, and a promise that rejects where the device refuses one of its calls. */
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

  /** A pass whose time `onComputed` is told with the next read, where the device takes times. */
  beginPass(
    encoder: GPUCommandEncoder,
    onComputed: ((durationMs: number) => void) | undefined,
  ): GPUComputePassEncoder {
    const times = this.#times;
    if (times === undefined || onComputed === undefined) return encoder.beginComputePass();
    // Nobody has read for long.
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

  /** The bytes as they are when all that was submitted so far is done. */
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

  /** As `read`, where nothing waits that was called before. WebGPU copies whole words. */
  async readNow(memory: GPUBuffer, byteOffset: number, target: Uint8Array): Promise<Uint8Array> {
    const words = Math.ceil(target.byteLength / 4) * 4;
    await this.#readBoth(target, words, (encoder, staging) =>
      encoder.copyBufferToBuffer(memory, byteOffset, staging, 0, words),
    );
    return target;
  }

  /** Settles when everything that was called so far is done. */
  async sync(): Promise<void> {
    await this.#unlessFailed(
      Promise.resolve(this.inOrder(() => this.device.queue.onSubmittedWorkDone())),
    );
    this.check();
  }

  /** Reads what `copy` copies to the beginning of memory to `target`, and the times of passes that are there by then. */
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
      await this.#unlessFailed(staging.mapAsync(mapModeRead, 0, size));
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
    // Not every implementation takes views of shared memory, and none takes parts of a word.
    const words = this.#wordsFor(Math.ceil(bytes.byteLength / 4));
    words.set(bytes);
    words.fill(0, bytes.byteLength);
    const { byteLength } = words;
    allocation.note(byteOffset, byteLength, new Int32Array(words.buffer, 0, byteLength / 4));
    const written = this.inOrder(() => this.device.queue.writeBuffer(memory, byteOffset, words));
    if (written instanceof Promise) written.catch(this.fail);
  }

  /** Memory from which words are written: the same again, but for writes that wait for others. */
  #wordsFor(words: number): Uint8Array<ArrayBuffer> {
    if (this.#last !== undefined || words > mostUploadWords) return new Uint8Array(4 * words);
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
