import { OutOfMemoryError, type Program } from '@shardwise/core/spec';
import type { GpuBuffer } from '../device/gpu-buffer.ts';
import type { GpuMemory } from '../device/gpu-memory.ts';
import type { GpuSession } from '../device/gpu-session.ts';
import { largeTiles, type ProductTile, registersTile } from '../kernels/product-tile.ts';
import { type DeviceTraits, leastTraits } from './device-traits.ts';
import { GpuExecutable } from './executable.ts';
import { fastestTile } from './fastest-tile.ts';
import { termsOf } from './kernel-work.ts';
import { planKernels } from './plan-kernels.ts';
import { Values } from './values.ts';

/** Tiles are tried before the first program that has a product of at least this many terms. */
const leastTerms = 2 ** 27;
/** The product that is tried, which has that many terms. Its result has tiles for each processor of a large device. */
const tried = { rows: 1024, terms: 128, columns: 1024 } as const;

/**
 * Finds the tile of products with which a device is fastest, once, at the first program with a large product. A
 * processor that emulates a device is known to be fastest without workgroup memory, so nothing is tried there.
 */
export class TunedProducts {
  readonly #session: GpuSession;
  readonly #memory: GpuMemory;
  readonly #traits: DeviceTraits;
  #tuning: Promise<ProductTile> | undefined;
  #tile: ProductTile | undefined;

  constructor(
    session: GpuSession,
    memory: GpuMemory,
    { bindingBytes, isProcessor }: { readonly bindingBytes: number; readonly isProcessor: boolean },
  ) {
    this.#session = session;
    this.#memory = memory;
    const { features, limits } = session.device;
    if (isProcessor) this.#tile = registersTile;
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
    // A trial must not fail if the program itself would not.
    const fits = this.#traits.bindingBytes >= 4 * tried.rows * tried.columns;
    if (!isLarge || !fits) return this.#traits;
    this.#tuning ??= this.#tune();
    this.#tile = await this.#tuning;
    return { ...this.#traits, tile: this.#tile };
  }

  async #tune(): Promise<ProductTile> {
    const { rows, terms, columns } = tried;
    const buffers: GpuBuffer[] = [];
    const executables = new Map<ProductTile, GpuExecutable>();
    try {
      for (const elements of [rows * terms, terms * columns, rows * columns])
        buffers.push(this.#memory.alloc(4 * elements));
      const [a, b, c] = buffers;
      if (a === undefined || b === undefined || c === undefined) throw new RangeError('3 buffers');
      for (const buffer of [a, b])
        this.#session.write(buffer, new Uint8Array(buffer.byteLength).fill(63));
      return await fastestTile(largeTiles, async (tile, runs) => {
        const executable = executables.get(tile) ?? this.#executable(tile);
        executables.set(tile, executable);
        const start = performance.now();
        for (let run = 0; run < runs; run++) await executable.run([a, b], [c]);
        await this.#session.sync();
        return performance.now() - start;
      });
    } catch (error) {
      // A trial must not take the memory that the program itself needs.
      if (error instanceof OutOfMemoryError) return largeTiles[0];
      throw error;
    } finally {
      for (const executable of executables.values()) executable.dispose();
      for (const buffer of buffers) this.#memory.free(buffer);
    }
  }

  #executable(tile: ProductTile): GpuExecutable {
    const { rows, terms, columns } = tried;
    const f32 = (...shape: number[]) => ({ shape, dtype: 'f32' }) as const;
    const params = { transposeA: false, transposeB: false };
    const program: Program = {
      inputs: [f32(rows, terms), f32(terms, columns)],
      instructions: [{ op: 'matmul', params, inputs: [0, 1], ...f32(rows, columns) }],
      outputs: [2],
      updates: [],
    };
    const plan = planKernels(program, { ...this.#traits, tile });
    return new GpuExecutable(this.#session, this.#memory, plan);
  }
}
