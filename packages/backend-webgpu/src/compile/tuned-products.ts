import { OutOfMemoryError, type Program } from '@shardwise/core/spec';
import type { GpuMemory } from '../device/gpu-memory.ts';
import type { GpuSession } from '../device/gpu-session.ts';
import { largeTiles, type ProductTile } from '../kernels/product-tile.ts';
import { type DeviceTraits, leastTraits } from './device-traits.ts';
import { GpuExecutable } from './executable.ts';
import { termsOf } from './kernel-work.ts';
import { planKernels } from './plan-kernels.ts';
import { Values } from './values.ts';

/** Programs with a product of so many terms have the tiles tried first. */
const leastTerms = 2 ** 27;
/** Sizes of the products that are tried: the larger one where the smaller one takes less than `quickMs`. */
const [smallSize, largeSize] = [256, 1024];
const quickMs = 10;
const runs = 3;

/** Which tile of products a device is fastest with: found once, at the first program with a large product. */
export class TunedProducts {
  readonly #session: GpuSession;
  readonly #memory: GpuMemory;
  readonly #traits: DeviceTraits;
  #tuning: Promise<ProductTile> | undefined;
  #tile: ProductTile | undefined;

  constructor(session: GpuSession, memory: GpuMemory, bindingBytes: number) {
    this.#session = session;
    this.#memory = memory;
    const { features, limits } = session.device;
    this.#traits = {
      ...leastTraits,
      mostBuffers: limits.maxStorageBuffersPerShaderStage,
      bindingBytes,
      computesF16: features.has('shader-f16'),
    };
  }

  /** The tile that was found. */
  get tile(): ProductTile | undefined {
    return this.#tile;
  }

  async traitsFor(program: Program): Promise<DeviceTraits> {
    if (this.#tile !== undefined) return { ...this.#traits, tile: this.#tile };
    const values = new Values(program);
    const isLarge = program.instructions.some(
      (instruction) => instruction.op === 'matmul' && termsOf(values, instruction) >= leastTerms,
    );
    // A trial must not fail where the program itself would not.
    const fits = this.#traits.bindingBytes >= 4 * largeSize ** 2;
    if (!isLarge || !fits) return this.#traits;
    this.#tuning ??= this.#tune();
    this.#tile = await this.#tuning;
    return { ...this.#traits, tile: this.#tile };
  }

  async #tune(): Promise<ProductTile> {
    const [first] = largeTiles;
    try {
      const size = (await this.#timeOf(first, smallSize)) < quickMs ? largeSize : smallSize;
      let [fastest, leastMs] = [first, Infinity];
      for (const tile of largeTiles) {
        const durationMs = await this.#timeOf(tile, size);
        if (durationMs < leastMs) [fastest, leastMs] = [tile, durationMs];
      }
      return fastest;
    } catch (error) {
      // What the program itself needs is not to be taken by a trial.
      if (error instanceof OutOfMemoryError) return first;
      throw error;
    }
  }

  /** The shortest of some runs, after one in which the kernel is compiled. */
  async #timeOf(tile: ProductTile, size: number): Promise<number> {
    const shape = [size, size];
    const type = { shape, dtype: 'f32' } as const;
    const params = { transposeA: false, transposeB: false };
    const plan = planKernels(
      {
        inputs: [type, type],
        instructions: [{ op: 'matmul', params, inputs: [0, 1], ...type }],
        outputs: [2],
        updates: [],
      },
      { ...this.#traits, tile },
    );
    const buffers: ReturnType<GpuMemory['alloc']>[] = [];
    const executable = new GpuExecutable(this.#session, this.#memory, plan);
    try {
      for (let i = 0; i < 3; i++) buffers.push(this.#memory.alloc(4 * size * size));
      const [a, b, c] = buffers;
      if (a === undefined || b === undefined || c === undefined) throw new RangeError('3 buffers');
      for (const buffer of [a, b])
        this.#session.write(buffer, new Uint8Array(buffer.byteLength).fill(63));
      let leastMs = Infinity;
      for (let run = 0; run <= runs; run++) {
        const start = performance.now();
        await executable.run([a, b], [c]);
        await this.#session.sync();
        if (run > 0) leastMs = Math.min(leastMs, performance.now() - start);
      }
      return leastMs;
    } finally {
      executable.dispose();
      for (const buffer of buffers) this.#memory.free(buffer);
    }
  }
}
