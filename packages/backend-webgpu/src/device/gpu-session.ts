import { BackendError, type ShardwiseError } from '@shardwise/core/spec';
import { bufferUsage, mapModeRead } from './gpu-constants.ts';
import type { GpuBuffer } from './gpu-buffer.ts';

/** Submissions under way, at most: a queue that grows without bound makes a device slow. */
const mostSubmissions = 8;

/** A device with its queue, what was compiled for it, and what has gone wrong on it. */
export class GpuSession {
  readonly device: GPUDevice;
  readonly #pipelines = new Map<string, GPUComputePipeline>();
  readonly #layouts = new Map<number, GPUBindGroupLayout>();
  #failure: Error | undefined;
  #pending = 0;
  #submissions = 0;
  #isClosed = false;

  constructor(device: GPUDevice) {
    this.device = device;
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

  close(): void {
    this.#isClosed = true;
    this.device.destroy();
  }

  /** Pipelines are found by their text: kernels that differ in nothing else share one. */
  pipeline(text: string, bindings: number): GPUComputePipeline {
    const known = this.#pipelines.get(text);
    if (known !== undefined) return known;
    const module = this.device.createShaderModule({ code: text });
    const layout = this.device.createPipelineLayout({ bindGroupLayouts: [this.layout(bindings)] });
    const pipeline = this.device.createComputePipeline({
      layout,
      compute: { module, entryPoint: 'main' },
    });
    this.#pipelines.set(text, pipeline);
    return pipeline;
  }

  get compiledPipelines(): number {
    return this.#pipelines.size;
  }

  get submissions(): number {
    return this.#submissions;
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

  /** Hands commands to the device. Settles when there is room for more. */
  async submit(commands: GPUCommandBuffer): Promise<void> {
    this.check();
    this.device.queue.submit([commands]);
    this.#pending += 1;
    this.#submissions += 1;
    const done = this.device.queue.onSubmittedWorkDone().finally(() => (this.#pending -= 1));
    if (this.#pending < mostSubmissions) {
      done.catch(this.fail);
      return;
    }
    await done;
    this.check();
  }

  /** The bytes as they are when all that was submitted so far is done. */
  async read(memory: GPUBuffer, byteOffset: number, byteLength: number): Promise<Uint8Array> {
    this.check();
    if (byteLength === 0) return new Uint8Array();
    const size = Math.ceil(byteLength / 4) * 4;
    const usage = bufferUsage.mapRead | bufferUsage.copyDestination;
    const staging = this.device.createBuffer({ size, usage });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(memory, byteOffset, staging, 0, size);
    this.device.queue.submit([encoder.finish()]);
    try {
      await staging.mapAsync(mapModeRead);
      this.check();
      return new Uint8Array(staging.getMappedRange()).slice(0, byteLength);
    } catch (error) {
      this.check();
      throw error;
    } finally {
      staging.destroy();
    }
  }

  write({ memory, byteOffset }: GpuBuffer, bytes: Uint8Array): void {
    this.check();
    if (bytes.byteLength === 0) return;
    const size = Math.ceil(bytes.byteLength / 4) * 4;
    // Not every implementation takes views of shared memory, and none takes parts of a word.
    const words = new Uint8Array(size);
    words.set(bytes);
    this.device.queue.writeBuffer(memory, byteOffset, words);
  }
}

function deviceError(message: string): ShardwiseError {
  return new BackendError({
    asked: 'the device to compute',
    found: message,
    todo: 'Start this rank again, from a checkpoint if there is one',
  });
}
