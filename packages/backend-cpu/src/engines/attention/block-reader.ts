import {
  type LinkedLoops,
  type LoopCall,
  type LoopCode,
  loopNumbers,
} from '../../lanes/loop-code.ts';
import { addressOf as hostAddress } from '../../memory/host-address.ts';
import type { AddressOf } from '../../program/partition.ts';
import type { StoredBlocks } from '../../program/work/attention-work.ts';
import type { ProductResources } from '../products/run-parts.ts';
import { placed } from './plan-attention.ts';
import { loadingLoop } from './attention-loops.ts';

/** Blocks in f32: an address, and how many bytes behind it each of them lies. */
export interface ReadableBlocks {
  readonly address: bigint;
  readonly byteOffsets: readonly number[];
}

/** Gives products the keys or values of blocks, in f32. */
export interface BlockReader {
  /** The blocks of these numbers, in their order, some at a time. Those are there until the next ones are asked for. */
  read(numbers: readonly number[], addressOf: AddressOf): Iterable<ReadableBlocks>;
}

/** The sizes of a block: tokens, groups of heads, and features. */
export interface BlockSizes {
  readonly blockSize: number;
  readonly groups: number;
  readonly width: number;
}

/** What readers on one memory share. */
export interface ReaderResources {
  readonly memory: WebAssembly.Memory;
  readonly base: bigint;
  readonly products: Pick<ProductResources, 'tile'>;
  readonly loops: LoopCode;
  /** Calls that have been linked, by what they convert. */
  readonly linked: Map<string, LinkedLoops>;
}

/**
 * The bytes of blocks that are converted at once, so that they are still in a core's second-level cache when products
 * read them.
 */
const CONVERTED_BYTES = 256 * 1024;
/** The slot of the memory that converted blocks share. */
const SLOT = 2;
/** The operands of the loop that converts. */
const operands = { stored: 0, scales: 1, converted: 2 } as const;

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
  readonly #base: bigint;

  constructor(
    value: number,
    { blockSize, groups, width }: BlockSizes,
    { base }: Pick<ReaderResources, 'base'>,
  ) {
    this.#value = value;
    this.#bytes = 4 * blockSize * groups * width;
    this.#base = base;
  }

  read(numbers: readonly number[], addressOf: AddressOf): readonly ReadableBlocks[] {
    const address = this.#base + BigInt(addressOf(this.#value));
    return [{ address, byteOffsets: numbers.map((number) => number * this.#bytes) }];
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

  *read(numbers: readonly number[], addressOf: AddressOf): Generator<ReadableBlocks> {
    const atOnce = Math.max(1, Math.floor(CONVERTED_BYTES / this.#bytes));
    const { base, products } = this.#resources;
    const address = hostAddress(products.tile(SLOT, atOnce * this.#bytes));
    for (let first = 0; first < numbers.length; first += atOnce) {
      const some = numbers.slice(first, first + atOnce);
      this.#convert(some, Number(address - base), addressOf);
      yield { address, byteOffsets: some.map((_, at) => at * this.#bytes) };
    }
  }

  #convert(numbers: readonly number[], converted: number, addressOf: AddressOf): void {
    const bytes = this.#bytes;
    const source = this.#stored;
    const stored = addressOf(source.value);
    const storedBytes = source.dtype === 'u8' ? bytes / 4 : bytes / 2;
    const scales = source.dtype === 'u8' ? addressOf(source.scales) : 0;
    const scaleBytes = bytes / this.#sizes.width;
    // Operand `operand` of the call for block `at` is the value 3 * at + operand.
    this.#callsFor(numbers.length).run((id) => {
      const at = Math.floor(id / 3);
      const number = numbers[at] ?? 0;
      if (id % 3 === operands.stored) return stored + number * storedBytes;
      return id % 3 === operands.scales ? scales + number * scaleBytes : converted + at * bytes;
    });
  }

  #callsFor(count: number): LinkedLoops {
    const { blockSize, groups, width } = this.#sizes;
    const { dtype } = this.#stored;
    const { linked, loops, memory } = this.#resources;
    const key = [dtype, blockSize, groups, width, count].join();
    const known = linked.get(key);
    if (known !== undefined) return known;
    const routine = placed(loops.routine(`attention loading ${dtype}`, () => loadingLoop(dtype)));
    const calls = Array.from({ length: count }, (_, at): LoopCall => {
      const own = dtype === 'u8' ? [0, 1, 2] : [operands.stored, operands.converted];
      return {
        routine,
        numbers: loopNumbers(blockSize * groups, width),
        values: own.map((operand) => 3 * at + operand),
      };
    });
    const made = loops.link(memory, calls);
    linked.set(key, made);
    return made;
  }
}
