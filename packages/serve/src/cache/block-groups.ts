import { fromData, type Tensor } from '@shardwise/core/extend';

/** How many blocks are copied at once. Fewer are filled up with the spare block, so that one program serves all. */
export const AT_ONCE = 8;

/** What the blocks of a cache are. */
export interface BlockPlaces {
  readonly blockSize: number;
  /** A block that no sequence has. */
  readonly spareBlock: number;
}

/** Those that are copied at once. */
export function* inGroups<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let first = 0; first < all.length; first += AT_ONCE) {
    yield all.slice(first, first + AT_ONCE);
  }
}

/** The rows of at most AT_ONCE blocks, filled up with those of the spare one. Shape: -> i32 [AT_ONCE * blockSize]. */
export function slotsOf(blocks: readonly number[], { blockSize, spareBlock }: BlockPlaces): Tensor {
  const slots = Int32Array.from({ length: AT_ONCE * blockSize }, (_, at) => {
    const block = blocks[Math.floor(at / blockSize)] ?? spareBlock;
    return block * blockSize + (at % blockSize);
  });
  return fromData(slots, [slots.length], 'i32');
}
