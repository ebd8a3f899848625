import type { Program } from '@shardwise/core/spec';
import type { GpuBuffer } from '../device/gpu-buffer.ts';
import type { GpuMemory } from '../device/gpu-memory.ts';
import type { GpuSession } from '../device/gpu-session.ts';
import type { ProductTile } from '../kernels/product-tile.ts';
import type { DeviceTraits } from '../kernels/device-traits.ts';
import { GpuExecutable } from '../run/executable.ts';
import { planKernels } from '../plan/plan-kernels.ts';

/** The sizes of a product of two matrices. Shape: [rows, terms], [terms, columns] -> [rows, columns]. */
export interface ProductSize {
  readonly rows: number;
  readonly terms: number;
  readonly columns: number;
}

/** The memory of the operands and the result of a trial. Trials of one device share it. */
export type TrialMemory = readonly [GpuBuffer, GpuBuffer, GpuBuffer];

/** A product with a tile, which runs on a device to be measured. */
export class Trial {
  readonly #session: GpuSession;
  readonly #executable: GpuExecutable;
  readonly #inputs: readonly GpuBuffer[];
  readonly #outputs: readonly GpuBuffer[];
  #compiled: Promise<void> | undefined;

  constructor(
    session: GpuSession,
    memory: GpuMemory,
    {
      traits,
      tile,
      size: { rows, terms, columns },
      buffers: [a, b, c],
    }: {
      readonly traits: DeviceTraits;
      readonly tile: ProductTile;
      readonly size: ProductSize;
      readonly buffers: TrialMemory;
    },
  ) {
    const f32 = (...shape: number[]) => ({ shape, dtype: 'f32' }) as const;
    const params = { transposeA: false, transposeB: false };
    const program: Program = {
      inputs: [f32(rows, terms), f32(terms, columns)],
      instructions: [{ op: 'matmul', params, inputs: [0, 1], ...f32(rows, columns) }],
      outputs: [2],
      updates: [],
    };
    const tiles = [{ tile, alone: 1, each: 1 }] as const;
    this.#session = session;
    this.#executable = new GpuExecutable(
      session,
      memory,
      planKernels(program, { ...traits, tiles }),
    );
    this.#inputs = [a.subBuffer(0, 4 * rows * terms), b.subBuffer(0, 4 * terms * columns)];
    this.#outputs = [c.subBuffer(0, 4 * rows * columns)];
  }

  /** Settles when the kernel is compiled. */
  compile(): Promise<void> {
    this.#compiled ??= this.#executable.compile(this.#inputs, this.#outputs);
    return this.#compiled;
  }

  /** The milliseconds of some runs, which are waited for together. */
  async timeOf(runs: number): Promise<number> {
    const start = performance.now();
    for (let run = 0; run < runs; run++) await this.#executable.run(this.#inputs, this.#outputs);
    await this.#session.sync();
    return performance.now() - start;
  }

  dispose(): void {
    this.#executable.dispose();
  }
}
