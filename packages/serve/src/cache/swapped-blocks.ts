import {
  type BufferTensor,
  currentSession,
  fromData,
  type HostData,
  noGrad,
} from '@shardwise/core/extend';
import type { BlockSwap } from '../blocks/swap-space.ts';
import { AT_ONCE, type BlockPlaces, inGroups, slotsOf } from './block-groups.ts';
import { put } from './kept-rows.ts';

/** The contents of blocks in the memory of the host, where they are while their sequences wait. */
export class SwappedBlocks {
  readonly #options: BlockPlaces;
  /** For each place, the rows of the block in each tensor. */
  readonly #contents = new Map<number, readonly HostData[]>();

  constructor(options: BlockPlaces) {
    this.#options = options;
  }

  /** Copies blocks out of tensors of rows. Shape: tensors each [slots, N]. */
  async takeOut(tensors: readonly BufferTensor[], swaps: readonly BlockSwap[]): Promise<void> {
    const { blockSize, spareBlock } = this.#options;
    for (const some of inGroups(swaps)) {
      const blocks = Array.from({ length: AT_ONCE }, (_, at) => some[at]?.block ?? spareBlock);
      const index = fromData(Int32Array.from(blocks), [AT_ONCE], 'i32');
      const read = noGrad(() =>
        tensors.map((kept) =>
          kept.reshape([-1, blockSize, kept.shape[1] ?? 0]).indexSelect(0, index),
        ),
      );
      for (const each of read) each.retain();
      const all = await Promise.all(read.map((each) => each.data()));
      for (const [at, { place }] of some.entries()) {
        const contents = all.map((data) => partOf(data, at));
        this.#contents.set(place, contents);
      }
    }
  }

  /** Copies contents back into blocks. Shape: tensors each [slots, N]. */
  async putBack(tensors: readonly BufferTensor[], swaps: readonly BlockSwap[]): Promise<void> {
    const { blockSize } = this.#options;
    for (const some of inGroups(swaps)) {
      const contents = some.map(({ place }) => this.#contents.get(place) ?? []);
      for (const { place } of some) this.#contents.delete(place);
      const slots = slotsOf(
        some.map(({ block }) => block),
        this.#options,
      );
      noGrad(() => {
        for (const [index, kept] of tensors.entries()) {
          const [, width = 0] = kept.shape;
          const parts = contents.flatMap((own) => own[index] ?? []);
          const rows = joined(parts, AT_ONCE * blockSize * width);
          if (rows === undefined) continue;
          put(kept, slots.unsqueeze(1), fromData(rows, [AT_ONCE * blockSize, width], kept.dtype));
        }
      });
      // Apart from the step that follows, so that its programs are those of steps without it.
      await currentSession().realize([]);
    }
  }
}

/** A copy of one of AT_ONCE equal parts. */
function partOf(data: HostData, at: number): HostData {
  const length = data.length / AT_ONCE;
  return data.slice(at * length, (at + 1) * length);
}

/** The parts behind each other, and zeros behind them. Undefined if there are none. */
function joined(parts: readonly HostData[], length: number): HostData | undefined {
  const [first] = parts;
  if (first === undefined) return undefined;
  const bytes = new Uint8Array(length * first.BYTES_PER_ELEMENT);
  let start = 0;
  for (const part of parts) {
    bytes.set(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), start);
    start += part.byteLength;
  }
  return likeFirst(first, bytes);
}

function likeFirst(first: HostData, { buffer }: Uint8Array<ArrayBuffer>): HostData {
  if (first instanceof Float32Array) return new Float32Array(buffer);
  if (first instanceof Uint16Array) return new Uint16Array(buffer);
  return new Uint8Array(buffer);
}
