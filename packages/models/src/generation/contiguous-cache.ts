import {
  arange,
  BufferTensor,
  concat,
  dtypes,
  elementCount,
  fromBytes,
  fromData,
  type Shape,
  type Tensor,
  zeros,
} from '@shardwise/core/extend';
import { attendTo } from '../layers/attention.ts';
import type { AttentionCache, CachedAttentionOptions } from '../model/forward-call.ts';

/** Where the tokens of a call are stored. */
interface Slots {
  /** The number of tokens of the call. */
  readonly count: number;
  /** The number of the first slot, as data, so that all steps run one program. Shape: i32 []. */
  readonly first: Tensor;
}

/**
 * Keys and values of all tokens of a batch, in one tensor for each layer, whose capacity is fixed between calls of
 * `grow`. Tokens of all rows have the same slots, so shorter rows are padded on the left. The first call has all tokens
 * of the prompts; each later one has one token for each row.
 */
export class ContiguousCache implements AttentionCache {
  readonly #layers = new Map<number, readonly [keys: BufferTensor, values: BufferTensor]>();
  #capacity: number;
  #slots: Slots | null = null;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** Says where the tokens of the next call are stored. Shape: first i32 []. */
  begin(count: number, first: Tensor): void {
    this.#slots = { count, first };
  }

  attend(
    layer: number,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    { attentionMask, window, ...options }: CachedAttentionOptions,
  ): Tensor {
    const known = this.#layers.get(layer);
    if (known === undefined) {
      this.#layers.set(layer, [this.#filled(key), this.#filled(value)]);
      const own = {
        ...options,
        ...(attentionMask === undefined ? {} : { attentionMask }),
        ...(window === undefined ? {} : { window }),
      };
      return attendTo(query, key, value, own);
    }
    const [keys, values] = known;
    const slot = this.#slots?.first ?? arange(1);
    const places = arange(this.#capacity);
    const isNew = places.eq(slot).reshape([1, 1, this.#capacity, 1]);
    keys.assign(isNew.where(key, keys));
    values.assign(isNew.where(value, values));
    // The mask says which slots are filled. A window reaches back from the slot of the query.
    const filled = attentionMask?.ne(0) ?? places.le(slot).reshape([1, this.#capacity]);
    const visible = window === undefined ? filled : filled.logicalAnd(places.gt(slot.sub(window)));
    return attendTo(query, keys, values, { ...options, attentionMask: visible });
  }

  /** Makes room for more tokens. */
  grow(capacity: number): void {
    const added = capacity - this.#capacity;
    this.#capacity = capacity;
    this.#replaceAll((old) => {
      const [batch = 0, heads = 0, , width = 0] = old.shape;
      return concat([old, zeros([batch, heads, added, width], old.dtype)], 2);
    });
  }

  /** Makes each row continue another one, or itself. */
  reorder(rows: readonly number[]): void {
    if (rows.every((row, index) => row === index)) return;
    const order = fromData(Int32Array.from(rows), [rows.length], 'i32');
    for (const pair of this.#layers.values()) {
      for (const kept of pair) kept.assign(kept.indexSelect(0, order));
    }
  }

  /** Frees the memory. */
  dispose(): void {
    for (const pair of this.#layers.values()) for (const kept of pair) kept.dispose();
    this.#layers.clear();
  }

  /** Keeps the tokens of the prompts. Shape: tokens [B, G, T, D] -> [B, G, capacity, D]. */
  #filled(tokens: Tensor): BufferTensor {
    const [batch = 0, heads = 0, length = 0, width = 0] = tokens.shape;
    const kept = emptyBuffer([batch, heads, this.#capacity, width], tokens);
    const rest = this.#capacity - length;
    kept.assign(
      rest === 0 ? tokens : concat([tokens, zeros([batch, heads, rest, width], tokens.dtype)], 2),
    );
    return kept;
  }

  #replaceAll(change: (old: BufferTensor) => Tensor): void {
    for (const [layer, pair] of this.#layers) {
      const replaced = (old: BufferTensor): BufferTensor => {
        const next = change(old);
        return emptyBuffer(next.shape, old).assign(next);
      };
      this.#layers.set(layer, [replaced(pair[0]), replaced(pair[1])]);
    }
  }
}

function emptyBuffer(shape: Shape, { dtype }: Tensor): BufferTensor {
  const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
  return new BufferTensor(fromBytes(bytes, dtype), shape, { dtype });
}
