import { type LoopCode, loopNumbers } from '../../lanes/loop-code.ts';
import type { AddressOf } from '../../program/partition.ts';
import type { StoredBlocks } from '../../program/work/attention-work.ts';
import type { ProductResources } from '../products/run-parts.ts';
import type { ThreadTasks } from '../products/thread-tasks.ts';
import { placed } from './plan-attention.ts';
import { loadingLoop } from './attention-loops.ts';

/** Blocks in f32: an address, and how many bytes behind it each of them lies. */
interface ReadableBlocks {
  readonly right: number;
  readonly byteOffsets: readonly number[];
}

/** Gives the products of a thread the keys or values of blocks, in f32. */
export interface BlockReader {
  /**
   * Visits the blocks of these numbers, in their order, some at a time. Those are there for the tasks that the visit adds.
   */
  read(
    numbers: readonly number[],
    addressOf: AddressOf,
    tasks: ThreadTasks,
    visit: (blocks: ReadableBlocks) => void,
  ): void;
}

/** The sizes of a block: tokens, groups of heads, and features. */
export interface BlockSizes {
  readonly blockSize: number;
  readonly groups: number;
  readonly width: number;
}

/** What readers on one memory share. */
export interface ReaderResources {
  /** The address of the memory. */
  readonly base: number;
  readonly products: ProductResources;
  readonly loops: LoopCode;
}

/**
 * The bytes of blocks that are converted at once, so that they are still in a core's second-level cache when products
 * read them.
 */
const CONVERTED_BYTES = 256 * 1024;
/** The slot of the memory that the converted blocks of a thread share. */
const slotOf = (thread: number): number => 4 * thread + 2;

export function blockReader(
  stored: StoredBlocks,
  sizes: BlockSizes,
  resources: ReaderResources,
): BlockReader {
  return stored.dtype === 'f32'
    ? new BlocksInPlace(stored.value, sizes, resources)
    : new ConvertedBlocks(stored, sizes, resources);
}

/** Blocks of f32, which products read where they lie. */
class BlocksInPlace implements BlockReader {
  readonly #value: number;
  readonly #bytes: number;
  readonly #base: number;

  constructor(
    value: number,
    { blockSize, groups, width }: BlockSizes,
    { base }: Pick<ReaderResources, 'base'>,
  ) {
    this.#value = value;
    this.#bytes = 4 * blockSize * groups * width;
    this.#base = base;
  }

  read(
    numbers: readonly number[],
    addressOf: AddressOf,
    _tasks: ThreadTasks,
    visit: (blocks: ReadableBlocks) => void,
  ): void {
    const byteOffsets = numbers.map((number) => number * this.#bytes);
    visit({ right: this.#base + addressOf(this.#value), byteOffsets });
  }
}

type NarrowBlocks = Exclude<StoredBlocks, { readonly dtype: 'f32' }>;

/** Blocks in fewer bits. Some at a time are converted to f32, in memory whose size does not depend on their number. */
class ConvertedBlocks implements BlockReader {
  readonly #stored: NarrowBlocks;
  readonly #sizes: BlockSizes;
  readonly #resources: ReaderResources;
  /** The bytes of a block in f32. */
  readonly #bytes: number;

  constructor(stored: NarrowBlocks, sizes: BlockSizes, resources: ReaderResources) {
    this.#stored = stored;
    this.#sizes = sizes;
    this.#resources = resources;
    this.#bytes = 4 * sizes.blockSize * sizes.groups * sizes.width;
  }

  read(
    numbers: readonly number[],
    addressOf: AddressOf,
    tasks: ThreadTasks,
    visit: (blocks: ReadableBlocks) => void,
  ): void {
    const atOnce = Math.max(1, Math.floor(CONVERTED_BYTES / this.#bytes));
    const tile = this.#resources.products.tile(slotOf(tasks.thread), atOnce * this.#bytes);
    const right = tasks.addressOf(tile);
    for (let first = 0; first < numbers.length; first += atOnce) {
      const some = numbers.slice(first, first + atOnce);
      for (const [at, number] of some.entries()) {
        this.#convert(number, right + at * this.#bytes, addressOf, tasks);
      }
      visit({ right, byteOffsets: some.map((_, at) => at * this.#bytes) });
    }
  }

  #convert(number: number, converted: number, addressOf: AddressOf, tasks: ThreadTasks): void {
    const { base, products, loops } = this.#resources;
    const { blockSize, groups, width } = this.#sizes;
    const source = this.#stored;
    const { dtype } = source;
    const addressIn = (value: number, blockBytes: number): number =>
      base + addressOf(value) + number * blockBytes;
    const stored = addressIn(source.value, dtype === 'u8' ? this.#bytes / 4 : this.#bytes / 2);
    const routine = placed(loops.routine(`attention loading ${dtype}`, () => loadingLoop(dtype)));
    const addresses =
      source.dtype === 'u8'
        ? [stored, addressIn(source.scales, this.#bytes / width), converted]
        : [stored, converted];
    tasks.addLoop(products, routine, loopNumbers(blockSize * groups, width), addresses);
  }
}
