import { OutOfMemoryError, type Program } from '@shardwise/core/spec';
import type { GpuBuffer } from '../device/gpu-buffer.ts';
import type { GpuMemory } from '../device/gpu-memory.ts';
import type { GpuSession } from '../device/gpu-session.ts';
import {
  deviceTiles,
  groupsOf,
  processorTiles,
  type ProductTile,
  type RatedTile,
} from '../kernels/product-tile.ts';
import { type DeviceTraits, leastTraits } from '../kernels/device-traits.ts';
import { termsOf } from '../plan/kernel-work.ts';
import { timeTiles } from './time-tiles.ts';
import { type ProductSize, Trial, type TrialMemory } from './trial.ts';
import { Values } from '../program/values.ts';

/** Tiles are tried before the first program that has a product of at least this many terms. */
const MIN_TERMS = 2 ** 25;

/** The product that is tried first. On a device that takes less than `quickMs` for it, `large` fills it with groups. */
const small: ProductSize = { rows: 1024, terms: 128, columns: 1024 };
const large: ProductSize = { rows: 2048, terms: 1024, columns: 2048 };
const QUICK_MS = 0.5;
const PROBE_RUNS = 8;
/**
 * The product of few groups. It has so many terms that computing it takes longer than handing it over, and just too many
 * elements for a product that is computed in parts.
 */
const narrow: ProductSize = { rows: 264, terms: 4096, columns: 264 };

type Rated = readonly [RatedTile, ...RatedTile[]];

/**
 * Measures how fast a device is with each tile of products, once, before the first program with a large product. A
 * processor that emulates a device is known to be fastest without workgroup memory, so nothing is tried there.
 */
export class TunedProducts {
  readonly #session: GpuSession;
  readonly #memory: GpuMemory;
  readonly #traits: DeviceTraits;
  #tuning: Promise<Rated> | undefined;
  #tiles: Rated | undefined;

  constructor(
    session: GpuSession,
    memory: GpuMemory,
    { bindingBytes, isProcessor }: { readonly bindingBytes: number; readonly isProcessor: boolean },
  ) {
    this.#session = session;
    this.#memory = memory;
    const { features, limits } = session.device;
    if (isProcessor) this.#tiles = processorTiles;
    this.#traits = {
      ...leastTraits,
      mostBuffers: limits.maxStorageBuffersPerShaderStage,
      bindingBytes,
      computesF16: features.has('shader-f16'),
    };
  }

  /** The tiles, and how fast the device is with each. Undefined before they were measured. */
  get tiles(): Rated | undefined {
    return this.#tiles;
  }

  /** The device, as far as it is known now. */
  get traits(): DeviceTraits {
    return this.#tiles === undefined ? this.#traits : { ...this.#traits, tiles: this.#tiles };
  }

  /** The device, measured before if the program has a large product. */
  async traitsFor(program: Program): Promise<DeviceTraits> {
    if (this.#tiles !== undefined) return this.traits;
    const values = new Values(program);
    const isLarge = program.instructions.some(
      (instruction) => instruction.op === 'matmul' && termsOf(values, instruction) >= MIN_TERMS,
    );
    // A trial must not fail if the program itself would not.
    const fits = this.#traits.bindingBytes >= 4 * large.rows * large.columns;
    if (!isLarge || !fits) return this.#traits;
    this.#tuning ??= this.#tune();
    this.#tiles = await this.#tuning;
    return this.traits;
  }

  async #tune(): Promise<Rated> {
    const buffers: GpuBuffer[] = [];
    const trials: Trial[] = [];
    try {
      for (const elements of [large.rows * large.terms, large.terms * large.columns]) {
        const buffer = this.#memory.alloc(4 * elements);
        buffers.push(buffer);
        this.#session.write(buffer, new Uint8Array(buffer.byteLength).fill(63));
      }
      buffers.push(this.#memory.alloc(4 * large.rows * large.columns));
      const [a, b, c] = buffers;
      if (a === undefined || b === undefined || c === undefined) throw new RangeError('3 buffers');
      return await this.#rate([a, b, c], trials);
    } catch (error) {
      // A trial must not take the memory that the program itself needs.
      if (error instanceof OutOfMemoryError) return deviceTiles;
      throw error;
    } finally {
      for (const trial of trials) trial.dispose();
      for (const buffer of buffers) this.#memory.free(buffer);
    }
  }

  async #rate(buffers: TrialMemory, trials: Trial[]): Promise<Rated> {
    const trialOf = (tile: ProductTile, size: ProductSize): Trial => {
      const options = { traits: this.#traits, tile, size, buffers };
      const trial = new Trial(this.#session, this.#memory, options);
      trials.push(trial);
      return trial;
    };
    const probe = trialOf(deviceTiles[0].tile, small);
    await probe.timeOf(PROBE_RUNS);
    const isQuick = (await probe.timeOf(PROBE_RUNS)) / PROBE_RUNS < QUICK_MS;
    const many = isQuick ? large : small;
    const pairs = deviceTiles.map(({ tile }) => ({
      tile,
      many: trialOf(tile, many),
      few: trialOf(tile, narrow),
    }));
    // All kernels are compiled in parallel. Whoever measures them hears of a failure.
    for (const trial of trials) trial.compile().catch(() => undefined);
    const times = await timeTiles(pairs);
    const [first, ...others] = times.map(({ pair: { tile }, manyMs, fewMs }) => ({
      tile,
      alone: fewMs / narrow.terms,
      each: manyMs / many.terms / groupsOf(tile, { matrices: 1, ...many }),
    }));
    return first === undefined ? deviceTiles : [first, ...others];
  }
}
