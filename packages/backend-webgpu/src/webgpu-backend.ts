import {
  BackendError,
  type Backend,
  type BackendLimits,
  type DeviceBuffer,
  type Executable,
  type HostMemory,
  type MemoryUsage,
  type Program,
} from '@shardwise/core/spec';
import { GpuExecutable } from './run/executable.ts';
import { limits } from './device/limits.ts';
import { planKernels } from './plan/plan-kernels.ts';
import { placeTemporaries } from './run/value-memory.ts';
import { TunedProducts } from './tune/tuned-products.ts';
import { BINDING_ALIGNMENT_BYTES } from './device/gpu-constants.ts';
import { GpuMemory, type MemoryLimits } from './device/gpu-memory.ts';
import { HostPool, type HostRegion } from './device/host-pool.ts';
import type { RatedTile } from './kernels/product-tile.ts';
import { GpuSession, type SessionOptions } from './device/gpu-session.ts';

export interface WebGpuBackendOptions extends SessionOptions, MemoryLimits {
  /** The adapter's description of itself. */
  readonly adapter: string;
  /** Whether the device is emulated by a processor, as by SwiftShader. Products then use no workgroup memory. */
  readonly isProcessor?: boolean;
  /** The most bytes of a buffer in one binding, if that is less than the device's own limit. */
  readonly bindingBytes?: number | undefined;
  /** Where values wait that are sent to other ranks. */
  readonly host?: HostRegion | undefined;
}

/** A backend that computes on a WebGPU device. */
export class WebGpuBackend implements Backend {
  readonly specificationVersion = 1;
  readonly name = 'webgpu';
  readonly limits: BackendLimits;
  /** The adapter's description of itself. */
  readonly adapter: string;
  readonly description: string;
  readonly timing: 'device' | 'encoding';
  readonly #session: GpuSession;
  readonly #memory: GpuMemory;
  readonly #products: TunedProducts;
  readonly #host: HostPool;

  constructor(
    device: GPUDevice,
    { adapter, bindingBytes = Infinity, isProcessor = false, ...options }: WebGpuBackendOptions,
  ) {
    const ownBytes = Math.min(bindingBytes, device.limits.maxStorageBufferBindingSize);
    const wholeBytes = ownBytes - (ownBytes % BINDING_ALIGNMENT_BYTES);

    this.adapter = adapter;
    this.#session = new GpuSession(device, options);
    this.timing = this.#session.takesTimes ? 'device' : 'encoding';
    const got = [
      `webgpu: ${adapter}`,
      device.features.has('shader-f16') ? 'with f16' : 'f16 by conversion',
      `bindings of ${ownBytes} bytes`,
      ...(this.timing === 'encoding' ? ['without clock: times of compute are of encoding'] : []),
    ];
    this.description = got.join(', ');
    this.#host = new HostPool(options.host);
    this.#memory = new GpuMemory(device, options, this.#session.fail, this.#session.destroy);
    this.limits = { ...limits, bufferBytes: this.#memory.largestBytes };
    this.#products = new TunedProducts(this.#session, this.#memory, {
      bindingBytes: wholeBytes,
      isProcessor,
    });
  }

  usage(): MemoryUsage {
    return this.#memory.usage();
  }

  /** The number of kernels that were compiled so far. */
  get compiledPipelines(): number {
    return this.#session.compiledPipelines;
  }

  /** The number of bind groups that were made so far. Steps with buffers that were bound before need no more. */
  get bindGroups(): number {
    return this.#session.bindGroups;
  }

  /** The number of submissions to the device so far. A program is one submission, or several if it takes long. */
  get submissions(): number {
    return this.#session.submissions;
  }

  /**
   * The ways in which threads may share out products, and how fast the device is with each. Undefined before the first
   * large product, when this is measured. For a processor that emulates a device, it is known from the start.
   */
  get tiles(): readonly RatedTile[] | undefined {
    return this.#products.tiles;
  }

  /** How often a program waited because two steps were under way. */
  get waits(): number {
    return this.#session.waits;
  }

  /**
   * How often memory of the device was mapped for reading: for values that are read, for collectives, and for
   * indices that the device computed.
   */
  get reads(): number {
    return this.#session.reads;
  }

  alloc(byteLength: number): DeviceBuffer {
    return this.#memory.alloc(byteLength);
  }

  free(buffer: DeviceBuffer): void {
    this.#memory.free(this.#memory.own(buffer));
  }

  write(buffer: DeviceBuffer, bytes: Uint8Array): void {
    const own = this.#memory.own(buffer);
    if (bytes.byteLength !== own.byteLength) {
      throw new BackendError(
        {
          asked: `to write ${bytes.byteLength} bytes`,
          found: `a buffer of ${own.byteLength} bytes`,
          todo: 'Write all of a buffer or of a sub-buffer',
        },
        { writtenBytes: bytes.byteLength, bufferBytes: own.byteLength },
      );
    }
    this.#session.write(own, bytes);
  }

  async read(buffer: DeviceBuffer, target?: Uint8Array): Promise<Uint8Array> {
    const { memory, byteOffset, byteLength } = this.#memory.own(buffer);
    return this.#session.read(memory, byteOffset, byteLength, target);
  }

  hostMemory(byteLength: number): HostMemory {
    return this.#host.take(byteLength);
  }

  /** Always undefined, because the device has its own memory. */
  map(): undefined {
    return undefined;
  }

  temporaryBytes(program: Program): number {
    const plan = planKernels(program, this.#products.traits);
    const { pageBytes } = placeTemporaries(plan, this.#memory.largestBytes);
    return pageBytes.reduce((sum, bytes) => sum + bytes, 0);
  }

  async compile(program: Program): Promise<Executable> {
    this.#session.check();
    const traits = await this.#products.traitsFor(program);
    return new GpuExecutable(this.#session, this.#memory, planKernels(program, traits));
  }

  async sync(): Promise<void> {
    await this.#session.sync();
  }

  /** Releases the device. This backend cannot be used afterwards. */
  close(): void {
    this.#session.close();
  }
}
