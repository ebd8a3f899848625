import {
  BufferTensor,
  concat,
  dtypes,
  elementCount,
  fromBytes,
  fromData,
  type Shape,
  type Tensor,
} from '@shardwise/core/extend';
import { attendTo, type AttentionCache, type CachedAttentionOptions } from '@shardwise/models';
import type { BlockCopy } from '../blocks/block-allocator.ts';
import type { QueryGroup, StepLayout } from './step-layout.ts';

/** The sizes of a paged cache. */
export interface PagedCacheOptions {
  readonly blockCount: number;
  /** The number of tokens of a block. */
  readonly blockSize: number;
}

/** The keys and values of a layer. Shape: each [blockCount * blockSize, G * D]. */
interface Layer {
  readonly keys: BufferTensor;
  readonly values: BufferTensor;
}

/** A group of queries as tensors. */
interface GroupInputs {
  readonly group: QueryGroup;
  /** Shape: i32 [sequences * blocks]. */
  readonly table: Tensor;
  /** Shape: i32 [sequences, queries]. */
  readonly positions: Tensor;
}

/**
 * Keys and values in blocks of a fixed number of tokens (PagedAttention, Kwon et al. 2023): one tensor of keys and one of
 * values for each layer, which are there from the first step to the end. A step writes the keys and values of its tokens
 * into their places, and each query reads those of its sequence through the numbers of its blocks.
 */
export class PagedCache implements AttentionCache {
  readonly #blockCount: number;
  readonly #blockSize: number;
  readonly #layers = new Map<number, Layer>();
  /** Where the tokens of the step go. Shape: i32 [T, 1]. */
  #slots: Tensor | null = null;
  #groups: readonly GroupInputs[] = [];

  constructor({ blockCount, blockSize }: PagedCacheOptions) {
    this.#blockCount = blockCount;
    this.#blockSize = blockSize;
  }

  /** The bytes of all keys and values. 0 before the first step, which knows their widths. */
  get byteLength(): number {
    return [...this.#layers.values()]
      .flatMap(({ keys, values }) => [keys, values])
      .reduce((sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes, 0);
  }

  /** Says which tokens the next forward pass has. */
  begin({ slots, groups }: Pick<StepLayout, 'slots' | 'groups'>): void {
    this.#slots = fromData(slots, [slots.length, 1], 'i32');
    this.#groups = groups.map((group) => ({
      group,
      table: fromData(group.table, [group.table.length], 'i32'),
      positions: fromData(group.positions, [group.sequences, group.queries], 'i32'),
    }));
  }

  /** Copies blocks. A step does this before it writes. */
  copyBlocks(copies: readonly BlockCopy[]): void {
    if (copies.length === 0) return;
    const [from, to] = (['from', 'to'] as const).map((side) => {
      const slots = copies.flatMap((copy) =>
        Array.from({ length: this.#blockSize }, (_, at) => copy[side] * this.#blockSize + at),
      );
      return fromData(Int32Array.from(slots), [slots.length], 'i32');
    });
    if (from === undefined || to === undefined) return;
    for (const { keys, values } of this.#layers.values()) {
      for (const kept of [keys, values]) write(kept, to.unsqueeze(1), kept.indexSelect(0, from));
    }
  }

  attend(
    layer: number,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    { scale, window, softcap }: CachedAttentionOptions,
  ): Tensor {
    const { keys, values } = this.#layerOf(layer, key, value);
    const slots = this.#slots;
    if (slots === null) return query;
    write(keys, slots, rowsOf(key));
    write(values, slots, rowsOf(value));
    const [, heads = 0, , width = 0] = query.shape;
    const [, keyHeads = 0] = key.shape;
    const parts = this.#groups.map(({ group, table, positions }) => {
      const { first, sequences, queries } = group;
      // The queries of a sequence follow each other. Shape: [1, H, B * T, D] -> [B, H, T, D].
      const own = query
        .slice(2, first, first + sequences * queries)
        .reshape([heads, sequences, queries, width])
        .transpose(0, 1);
      const attended = attendTo(
        own,
        this.#through(keys, table, group, keyHeads),
        this.#through(values, table, group, keyHeads),
        {
          keyRanges: rangesOf(positions, window),
          ...(scale === undefined ? {} : { scale }),
          ...(softcap === undefined ? {} : { softcap }),
        },
      );
      return attended.transpose(0, 1).reshape([1, heads, sequences * queries, -1]);
    });
    const [whole = query, ...others] = parts;
    return others.length === 0 ? whole : concat(parts, 2);
  }

  /** Frees the memory. */
  dispose(): void {
    for (const { keys, values } of this.#layers.values()) {
      keys.dispose();
      values.dispose();
    }
    this.#layers.clear();
  }

  /** Reads keys or values through a table. Shape: kept [slots, G * D], table [B * M] -> [B, G, M * blockSize, D]. */
  #through(kept: Tensor, table: Tensor, { sequences, blocks }: QueryGroup, heads: number): Tensor {
    const [, width = 0] = kept.shape;
    return kept
      .reshape([this.#blockCount, this.#blockSize * width])
      .indexSelect(0, table)
      .reshape([sequences, blocks * this.#blockSize, heads, width / heads])
      .transpose(1, 2);
  }

  #layerOf(number: number, key: Tensor, value: Tensor): Layer {
    const known = this.#layers.get(number);
    if (known !== undefined) return known;
    const made = { keys: this.#empty(key), values: this.#empty(value) };
    this.#layers.set(number, made);
    return made;
  }

  /** Shape: like [1, G, T, D] -> [slots, G * D]. */
  #empty({ shape: [, heads = 0, , width = 0], dtype }: Tensor): BufferTensor {
    const shape: Shape = [this.#blockCount * this.#blockSize, heads * width];
    const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
    return new BufferTensor(fromBytes(bytes, dtype), shape, { dtype });
  }
}

/** The tokens as rows. Shape: x [1, G, T, D] -> [T, G * D]. */
function rowsOf(x: Tensor): Tensor {
  const [, , tokens = 0] = x.shape;
  return x.transpose(1, 2).reshape([tokens, -1]);
}

/** Puts rows into their places, in place. Shape: kept [slots, N], places i32 [T, 1], rows [T, N]. */
function write(kept: BufferTensor, places: Tensor, rows: Tensor): void {
  kept.assign(kept.scatter(0, places.expand(rows.shape), rows));
}

/**
 * A query sees the keys of its sequence up to its own place, or the last ones of these.
 * Shape: positions i32 [B, T] -> i32 [B, T, 2].
 */
function rangesOf(positions: Tensor, window: number | undefined): Tensor {
  const ends = positions.add(1);
  const firsts = window === undefined ? positions.mul(0) : ends.sub(window).maximum(0);
  return concat([firsts.unsqueeze(2), ends.unsqueeze(2)], 2);
}
