import {
  type Backend,
  type BufferTensor,
  concat,
  currentSession,
  dynamic,
  fromData,
  noGrad,
  OutOfMemoryError,
  pagedAttention,
  type Tensor,
} from '@shardwise/core/extend';
import { attendTo, type AttentionCache, type CachedAttentionOptions } from '@shardwise/models';
import type { BlockCopy } from '../blocks/block-allocator.ts';
import type { BlockSwap } from '../blocks/swap-space.ts';
import {
  bytesOf,
  bytesOfRows,
  type KeptRows,
  keptRows,
  type KvCacheDtype,
  put,
  type RowSizes,
} from './kept-rows.ts';
import { inGroups, slotsOf } from './block-groups.ts';
import { SwappedBlocks } from './swapped-blocks.ts';
import {
  BLOCKS_AT_ONCE,
  type QueryGroup,
  spareGroup,
  type StepLayout,
  TOKENS_AT_ONCE,
} from './step-layout.ts';

/** The sizes of a paged cache, and the most that a step has of anything. */
export interface PagedCacheOptions {
  readonly blockCount: number;
  /** The number of tokens of a block. */
  readonly blockSize: number;
  readonly maxSequences: number;
  readonly maxChunkTokens: number;
  /** The most tokens of a sequence. */
  readonly maxTokens: number;
  readonly kvCacheDtype: KvCacheDtype;
}

/**
 * The least limit of a size. A plan for any sizes is made by looking at some below the limits, of which there must be enough
 * that differ.
 */
const LEAST_MOST = 32;

/** The keys and values of a layer. */
interface Layer {
  readonly keys: KeptRows;
  readonly values: KeptRows;
}

/** A group of queries as tensors. */
interface GroupInputs {
  readonly group: QueryGroup;
  /** The place of the first token of the group in the row. */
  readonly first: number;
  /** Shape: i32 [sequences, blocks]. */
  readonly table: Tensor;
  /** The place of each token in its sequence. Shape: i32 [1, sequences * queries]. */
  readonly positions: Tensor;
}

/** The row of tokens of a step. Shape: each i32 [1, T]. */
export interface StepInputs {
  readonly tokens: Tensor;
  readonly positions: Tensor;
  /** The numbers of the adapters of the tokens. */
  readonly adapters: Tensor;
}

/**
 * Keys and values in blocks of a fixed number of tokens (PagedAttention, Kwon et al. 2023): one tensor of keys and one of
 * values for each layer, which are there from the first step to the end. A step writes the keys and values of its tokens
 * into their places, and each query reads those of its sequence through the numbers of its blocks.
 */
export class PagedCache implements AttentionCache {
  /** The number of blocks, with the spare one. */
  readonly #blockCount: number;
  readonly #blockSize: number;
  readonly #kvCacheDtype: KvCacheDtype;
  readonly #swapped: SwappedBlocks;
  readonly #layers = new Map<number, Layer>();
  /** The most sequences with a single token, tokens of a chunk, and blocks of a sequence. Programs are made for all sizes. */
  readonly #most: Readonly<Record<'sequences' | 'queries' | 'blocks', number>>;
  /** The bytes of memory that there were for the cache before its first layer. */
  #room: number | null = null;
  /** Where the tokens of the step go. Shape: i32 [T, 1]. */
  #slots: Tensor | null = null;
  #groups: readonly GroupInputs[] = [];

  constructor(options: PagedCacheOptions) {
    const { blockCount, blockSize, maxSequences, maxChunkTokens, maxTokens } = options;
    this.#kvCacheDtype = options.kvCacheDtype;
    this.#blockCount = blockCount + 1;
    this.#blockSize = blockSize;
    this.#swapped = new SwappedBlocks({ blockSize, spareBlock: this.spareBlock });
    const blocks = Math.min(blockCount, Math.ceil(maxTokens / blockSize));
    this.#most = {
      sequences: Math.max(LEAST_MOST, Math.ceil(maxSequences / TOKENS_AT_ONCE) * TOKENS_AT_ONCE),
      queries: Math.max(LEAST_MOST, maxChunkTokens),
      blocks: Math.max(LEAST_MOST, Math.ceil(blocks / BLOCKS_AT_ONCE) * BLOCKS_AT_ONCE),
    };
  }

  /** A block that no sequence has, behind the others. */
  get spareBlock(): number {
    return this.#blockCount - 1;
  }

  /** The bytes of all keys and values. 0 before the first step, which knows their widths. */
  get byteLength(): number {
    return bytesOf(this.#tensors());
  }

  /**
   * Says which tokens the next forward pass has, and returns them. `declares` says that the sizes of groups vary up to
   * their limits, for which one plan is made. The first step of a form must not, because the sizes of a single run all
   * differ by constants.
   */
  begin({ groups }: Pick<StepLayout, 'groups'>, declares: boolean): StepInputs {
    const limited = (data: Tensor, max: number): Tensor =>
      declares ? dynamic(data, 1, { max }) : data;
    let first = 0;
    const made = groups.map((group) => {
      const { sequences, queries, blocks } = group;
      const count = sequences * queries;
      const most = queries > 1 ? this.#most.queries : this.#most.sequences;
      const placed = limited(fromData(group.placed, [4, count], 'i32'), most);
      const [tokens = placed, positions = placed, slots = placed, adapters = placed] = placed.chunk(
        4,
        0,
      );
      const table = limited(fromData(group.table, [sequences, blocks], 'i32'), this.#most.blocks);
      const own = { group, first, table, positions, tokens, slots, adapters };
      first += count;
      return own;
    });
    this.#groups = made;
    this.#slots = joined(made.map(({ slots }) => slots)).reshape([first, 1]);
    return {
      tokens: joined(made.map(({ tokens }) => tokens)),
      positions: joined(made.map(({ positions }) => positions)),
      adapters: joined(made.map(({ adapters }) => adapters)),
    };
  }

  /** Two steps with the same kinds of groups as another one, whose sizes have nothing to do with each other. */
  examplesLike({ groups }: StepLayout): readonly StepLayout[] {
    const part = (most: number, share: number): number => Math.floor(most * share);
    const { sequences, queries, blocks } = this.#most;
    const places = { blockSize: this.#blockSize, spareBlock: this.spareBlock };
    return [
      { ofChunk: [0.83, 0.37], ofSingles: [0.71, 0.53] },
      { ofChunk: [0.59, 0.95], ofSingles: [0.43, 0.29] },
    ].map(({ ofChunk, ofSingles }) => {
      const own = groups.map((group) => {
        const [count = 1, length = 1] = group.queries > 1 ? ofChunk : ofSingles;
        const sizes = { blocks: part(blocks, length) };
        return group.queries > 1
          ? spareGroup({ ...sizes, sequences: 1, queries: part(queries, count) }, places)
          : spareGroup({ ...sizes, sequences: part(sequences, count), queries: 1 }, places);
      });
      const scored = own.reduce((sum, group) => sum + group.sequences, 0);
      return { groups: own, scored: Array.from({ length: scored }, () => null) };
    });
  }

  /** Copies blocks to the memory of the host, or back from there. */
  async swap({
    swapOuts,
    swapIns,
  }: Readonly<Record<'swapOuts' | 'swapIns', readonly BlockSwap[]>>): Promise<void> {
    const tensors = this.#tensors();
    await this.#swapped.takeOut(tensors, swapOuts);
    await this.#swapped.putBack(tensors, swapIns);
  }

  /** Copies blocks. A step does this before it writes. */
  async copyBlocks(copies: readonly BlockCopy[]): Promise<void> {
    const places = { blockSize: this.#blockSize, spareBlock: this.spareBlock };
    for (const some of inGroups(copies)) {
      const [from, to] = [
        slotsOf(
          some.map((copy) => copy.from),
          places,
        ),
        slotsOf(
          some.map((copy) => copy.to),
          places,
        ),
      ];
      noGrad(() => {
        for (const kept of this.#tensors()) put(kept, to.unsqueeze(1), kept.indexSelect(0, from));
      });
      // Apart from the step that follows, so that its programs are those of steps without copies.
      await currentSession().realize([]);
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
    keys.write(slots, rowsOf(key));
    values.write(slots, rowsOf(value));
    const [, heads = 0, , width = 0] = query.shape;
    const [allKeys, allValues] = [keys.read(), values.read()];
    const parts = this.#groups.map(({ group, first, table, positions }) => {
      const { sequences, queries } = group;
      // The queries of a sequence follow each other. Shape: [1, H, B * T, D] -> [B, H, T, D].
      const own = query
        .slice(2, first, first + sequences * queries)
        .reshape([heads, sequences, queries, width])
        .transpose(0, 1);
      const ranges = rangesOf(positions.reshape([sequences, queries]), window);
      const attended =
        softcap === undefined
          ? pagedAttention(
              own,
              {
                keys: allKeys,
                values: allValues,
                table,
                ranges,
              },
              scale,
            )
          : attendTo(
              own,
              this.#through(allKeys, table, group),
              this.#through(allValues, table, group),
              { keyRanges: ranges, softcap, ...(scale === undefined ? {} : { scale }) },
            );
      return attended.transpose(0, 1).reshape([1, heads, sequences * queries, -1]);
    });
    return joined(parts, 2);
  }

  /** Frees the memory. */
  dispose(): void {
    for (const kept of this.#tensors()) kept.dispose();
    this.#layers.clear();
  }

  #tensors(): readonly BufferTensor[] {
    return [...this.#layers.values()].flatMap(({ keys, values }) => [
      ...keys.tensors,
      ...values.tensors,
    ]);
  }

  /** Copies keys or values through a table, for bounded scores, which are no single op. Shape: kept [N, P, G, D], table [B, M] -> [B, G, M * P, D]. */
  #through(kept: Tensor, table: Tensor, { sequences, blocks }: QueryGroup): Tensor {
    return kept
      .indexSelect(0, table.reshape([sequences * blocks]))
      .reshape([sequences, blocks * this.#blockSize, ...kept.shape.slice(2)])
      .transpose(1, 2);
  }

  #layerOf(number: number, key: Tensor, value: Tensor): Layer {
    const known = this.#layers.get(number);
    if (known !== undefined) return known;
    this.#requireRoom(number, key, value);
    const made = { keys: this.#empty(key), values: this.#empty(value) };
    this.#layers.set(number, made);
    return made;
  }

  /**
   * Throws OutOfMemoryError if the machine has no memory for another layer. The system would end the process while the cache is
   * filled.
   */
  #requireRoom(layer: number, key: Tensor, value: Tensor): void {
    this.#room ??= roomOf(currentSession().backend);
    const [own = 0, others = 0] = [key, value].map((like) =>
      bytesOfRows(this.#kvCacheDtype, like, this.#sizesOf(like)),
    );
    const bytes = this.byteLength + own + others;
    if (bytes <= this.#room) return;
    const tokens = this.spareBlock * this.#blockSize;
    throw new OutOfMemoryError(
      {
        asked: `a cache of the keys and values of ${tokens} tokens`,
        found: `up to layer ${layer} they have ${bytes} bytes, and the machine has ${this.#room} bytes of memory left`,
        todo: 'Give a smaller cacheTokens, or kvCacheDtype: int8',
      },
      { tokens, bytes, availableBytes: this.#room },
    );
  }

  /** Shape: like [1, G, T, D]. */
  #empty(like: Tensor): KeptRows {
    return keptRows(this.#kvCacheDtype, like, this.#sizesOf(like));
  }

  #sizesOf({ shape: [, groups = 0, , width = 0] }: Tensor): RowSizes {
    const [blockCount, blockSize] = [this.#blockCount, this.#blockSize];
    return { blockCount, blockSize, groups, width };
  }
}

/** The bytes of memory that a device of this machine's memory may still take. Infinity if it is not known. */
function roomOf({ timing }: Backend): number {
  // A device that computes by itself has memory of its own.
  if (timing !== undefined || typeof process === 'undefined') return Number.POSITIVE_INFINITY;
  // Other systems count as used what they would give back.
  if (process.platform === 'linux') return process.availableMemory();
  return process.getBuiltinModule('node:os').totalmem();
}

/** Concatenates tensors, of which there is at least one. */
function joined(parts: readonly Tensor[], dim = 1): Tensor {
  const [first] = parts;
  return first !== undefined && parts.length === 1 ? first : concat(parts, dim);
}

/** The tokens as rows. Shape: x [1, G, T, D] -> [T, G * D]. */
function rowsOf(x: Tensor): Tensor {
  const [, , tokens = 0] = x.shape;
  return x.transpose(1, 2).reshape([tokens, -1]);
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
