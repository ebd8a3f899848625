import {
  arange,
  ConfigError,
  formatShape,
  full,
  functional,
  gatherSequence,
  ShapeError,
  stack,
  type Tensor,
} from '@shardwise/core/extend';
import type {
  AttentionSettings,
  CachedAttentionOptions,
  ForwardCall,
} from '../model/forward-call.ts';
import { documentBounds } from './positions.ts';

/**
 * The attention of all models. It goes through the cache if the call has one. A query that sees no key gets zeros.
 * Shape: query [B, H, T, D], key [B, G, T, D], value [B, G, T, E] -> [B, H, T, E].
 */
export function attention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  { attentionMask, documents, cache, rowPart }: ForwardCall,
  { layer, ...settings }: AttentionSettings,
): Tensor {
  const options: CachedAttentionOptions = {
    ...settings,
    ...(attentionMask === undefined ? {} : { attentionMask }),
    ...(documents === undefined ? {} : { documents }),
    ...(rowPart === undefined ? {} : { rowPart }),
  };
  if (cache !== undefined) return cache.attend(layer, query, key, value, options);
  return attendTo(query, key, value, options);
}

/** Options of `attendTo`. */
export interface AttendToOptions extends CachedAttentionOptions {
  /**
   * The first key that each query sees, and one more than the last, in the place of what causality, a window and documents
   * say. Shape: i32 [B or 1, T, 2].
   */
  readonly keyRanges?: Tensor;
}

/**
 * Attention of T queries to S keys, of which the last T belong to the queries if no ranges are given. Caches call it with
 * all keys. Shape: query [B, H, T, D], key [B, G, S, D], value [B, G, S, E] -> [B, H, T, E].
 */
export function attendTo(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  options: AttendToOptions,
): Tensor {
  if (options.softcap === undefined || options.rowPart === undefined) {
    return attendToKeys(query, key, value, options);
  }
  // Bounded scores are not those of scaledDotProductAttention, which alone finds the keys of other ranks.
  const { attentionMask } = options;
  return attendToKeys(query, gatherSequence(key, 2), gatherSequence(value, 2), {
    ...options,
    ...(attentionMask && { attentionMask: gatherSequence(attentionMask, 1) }),
  });
}

function attendToKeys(query: Tensor, key: Tensor, value: Tensor, options: AttendToOptions): Tensor {
  const { scale, dropout = 0, softcap, attentionMask, documents } = options;
  requireMasks(key, attentionMask, documents);
  const [, , queries = 0] = query.shape;
  const [, , keys = 0] = key.shape;
  const given = options.keyRanges;
  const limits: Limits = {
    causal: given === undefined && (options.causal ?? true) && queries === keys,
    keyRanges: given ?? keyRanges(queries, keys, options),
    mask: attentionMask?.ne(0).reshape([attentionMask.shape[0] ?? 0, 1, 1, keys]) ?? null,
  };
  if (softcap !== undefined) return cappedAttention(query, key, value, softcap, limits, options);
  const { causal, keyRanges: ranges, mask } = limits;
  return functional.scaledDotProductAttention(query, key, value, {
    causal,
    ...(ranges === null ? {} : { keyRanges: ranges }),
    ...(mask === null ? {} : { mask }),
    ...(scale === undefined ? {} : { scale }),
    dropout,
  });
}

/** Which keys queries see, as scaledDotProductAttention takes it. Null: all. */
interface Limits {
  readonly causal: boolean;
  /** Shape: i32 [B or 1, T, 2]. */
  readonly keyRanges: Tensor | null;
  /** Shape: bool [B, 1, 1, S]. */
  readonly mask: Tensor | null;
}

/**
 * The first key that each query sees, and one more than the last, by its document, its window and its place. Null if it
 * sees all, or all but those behind its place that causal attention of as many queries as keys hides anyway.
 */
function keyRanges(
  queries: number,
  keys: number,
  { causal = true, window, documents, rowPart }: CachedAttentionOptions,
): Tensor | null {
  // Only made if it is needed: the next step would compute a small value that nobody has used.
  const ownPlaces = (): Tensor =>
    rowPart?.places ?? arange(keys - queries, keys).reshape([1, queries]);
  const bounds = rowPart === undefined ? documents && documentBounds(documents) : rowPart.documents;
  const isLong = rowPart !== undefined || (window !== undefined && keys > window);
  const firsts = [
    ...(window !== undefined && isLong ? [ownPlaces().sub(window - 1)] : []),
    ...(bounds ? [bounds.starts] : []),
  ];
  const ends = [
    ...(causal && queries !== keys && queries > 1 ? [ownPlaces().add(1)] : []),
    ...(bounds && !causal ? [bounds.ends] : []),
  ];
  if (firsts.length + ends.length === 0) return null;
  const same = (key: number): Tensor => full([1, queries], key, 'i32');
  const first = firsts.reduce((a, b) => a.maximum(b), same(0));
  // Ranges may end behind the last key.
  const end = ends.reduce((a, b) => a.minimum(b), same(2 ** 31 - 1));
  const items = bounds?.starts.shape[0] ?? 1;
  return stack(
    [first, end].map((bound) => bound.expand([items, queries])),
    2,
  );
}

/**
 * Throws ShapeError for a mask that has not one number for each key, and ConfigError for documents of fewer tokens than
 * there are keys, whose documents are then not known.
 */
function requireMasks(
  { shape: [rows = 0, , keys = 0] }: Tensor,
  attentionMask: Tensor | undefined,
  documents: Tensor | undefined,
): void {
  const masked = attentionMask?.shape;
  if (masked !== undefined && !(masked.length === 2 && masked[1] === keys)) {
    throw new ShapeError(
      {
        asked: `an attentionMask of shape ${formatShape(masked)}`,
        found: `${keys} keys`,
        todo: `Use shape [${rows}, ${keys}]: 1 for each token that may be seen, also for those of a cache`,
      },
      { mask: masked, keys },
    );
  }
  if (documents === undefined || documents.shape[1] === keys) return;
  throw new ConfigError(
    {
      asked: `attention within documents of ${documents.shape[1] ?? 0} tokens`,
      found: `${keys} keys: those of a cache have no document`,
      todo: 'Leave the cache or the documents out',
    },
    { documents: documents.shape, keys },
  );
}

/** Attention with bounded scores, as Gemma 2 has it. It keeps the scores. */
function cappedAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  softcap: number,
  limits: Limits,
  { scale, dropout = 0 }: CachedAttentionOptions,
): Tensor {
  const [batch = 0, heads = 0, length = 0, width = 0] = query.shape;
  const [, groups = 0, keys = 0] = key.shape;
  // The query heads that share a head of keys become rows of one product.
  const grouped = query.reshape([batch, groups, (heads / groups) * length, width]);
  const products = grouped.matmul(key, { transposeB: true });
  const scores = products
    .mul((scale ?? 1 / Math.sqrt(width)) / softcap)
    .tanh()
    .mul(softcap)
    .reshape([batch, heads, length, -1]);
  // Scores are bounded, so this number hides keys in every dtype. Minus infinity would make NaN of a query that sees none.
  const hidden = full([], -6e4, scores.dtype);
  const visible = visibleKeys(limits, length, keys);
  const weights =
    visible === null
      ? scores.softmax()
      : visible.where(visible.where(scores, hidden).softmax(), full([], 0, scores.dtype));
  const kept = dropout > 0 ? functional.dropout(weights, dropout) : weights;
  const result = kept.reshape([batch, groups, (heads / groups) * length, -1]).matmul(value);
  return result.reshape([batch, heads, length, -1]);
}

/** Shape: -> bool, which broadcasts to [B, 1, T, S]. Null: all keys. */
function visibleKeys(
  { causal, keyRanges: ranges, mask }: Limits,
  queries: number,
  keys: number,
): Tensor | null {
  const parts = mask === null ? [] : [mask];
  const places = arange(keys).reshape([1, 1, 1, keys]);
  if (causal) parts.push(places.le(arange(queries).reshape([1, 1, queries, 1])));
  if (ranges !== null) {
    const [first, end] = [0, 1].map((bound) => ranges.slice(2, bound, bound + 1).unsqueeze(1));
    if (first !== undefined && end !== undefined) parts.push(places.ge(first), places.lt(end));
  }
  const [whole, ...rest] = parts;
  return whole === undefined ? null : rest.reduce((all, part) => all.logicalAnd(part), whole);
}

/** Splits features into heads. Shape: x [B, T, H * D] -> [B, H, T, D]. */
export function intoHeads(x: Tensor, width: number): Tensor {
  const [batch = 0, length = 0] = x.shape;
  return x.reshape([batch, length, -1, width]).transpose(1, 2);
}

/** Joins the features of heads. Shape: x [B, H, T, D] -> [B, T, H * D]. */
export function joinHeads(x: Tensor): Tensor {
  return x.transpose(1, 2).flatten(2);
}
