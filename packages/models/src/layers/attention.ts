import {
  arange,
  ConfigError,
  formatShape,
  full,
  functional,
  ShapeError,
  type Tensor,
} from '@shardwise/core/extend';
import type {
  AttentionSettings,
  CachedAttentionOptions,
  ForwardCall,
} from '../model/forward-call.ts';
import { documentStarts } from './positions.ts';

/**
 * The attention of all models. It goes through the cache if the call has one. A query that sees no key gets zeros.
 * Shape: query [B, H, T, D], key [B, G, T, D], value [B, G, T, E] -> [B, H, T, E].
 */
export function attention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  { attentionMask, documents, cache }: ForwardCall,
  { layer, ...settings }: AttentionSettings,
): Tensor {
  const options: CachedAttentionOptions = {
    ...settings,
    ...(attentionMask === undefined ? {} : { attentionMask }),
    ...(documents === undefined ? {} : { documents }),
  };
  if (cache !== undefined) return cache.attend(layer, query, key, value, options);
  return attendTo(query, key, value, options);
}

/**
 * Attention of T queries to S keys, of which the last T belong to the queries. Caches call it with all keys.
 * Shape: query [B, H, T, D], key [B, G, S, D], value [B, G, S, E] -> [B, H, T, E].
 */
export function attendTo(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  options: CachedAttentionOptions,
): Tensor {
  const { scale, dropout = 0, softcap, causal = true } = options;
  const visible = visibleKeys(query, key, options);
  if (softcap !== undefined) return cappedAttention(query, key, value, softcap, visible, options);
  return functional.scaledDotProductAttention(query, key, value, {
    causal: causal && query.shape[2] === key.shape[2],
    ...(visible === null ? {} : { mask: visible }),
    ...(scale === undefined ? {} : { scale }),
    dropout,
  });
}

/**
 * What a query sees of the keys, beside the causal mask of as many queries as keys. Null: all.
 * Shape: -> bool, which broadcasts to [B, 1, T, S].
 */
function visibleKeys(
  query: Tensor,
  key: Tensor,
  { causal = true, window, attentionMask, documents, softcap }: CachedAttentionOptions,
): Tensor | null {
  const [, , queries = 0] = query.shape;
  const [, , keys = 0] = key.shape;
  requireMasks(key, attentionMask, documents);
  const parts: Tensor[] = [];
  // Places of queries and keys among the keys, as a column and a row.
  const own = arange(keys - queries, keys).reshape([queries, 1]);
  const others = arange(keys).reshape([1, keys]);
  const needsCausal = causal && (queries !== keys || softcap !== undefined) && queries > 1;
  if (needsCausal) parts.push(others.le(own));
  if (window !== undefined && keys > window) parts.push(others.gt(own.sub(window)));
  if (documents !== undefined) parts.push(ofSameDocument(documents, causal));
  if (attentionMask !== undefined) {
    parts.push(attentionMask.ne(0).reshape([attentionMask.shape[0] ?? 0, 1, 1, keys]));
  }
  const [first, ...rest] = parts;
  return first === undefined ? null : rest.reduce((all, each) => all.logicalAnd(each), first);
}

/** Shape: documents [B, T] -> bool [B, 1, T, T]. */
function ofSameDocument(documents: Tensor, causal: boolean): Tensor {
  const [rows = 0, length = 0] = documents.shape;
  const starts = documentStarts(documents);
  const column = starts.reshape([rows, 1, length, 1]);
  if (causal) return arange(length).reshape([1, 1, 1, length]).ge(column);
  return column.eq(starts.reshape([rows, 1, 1, length]));
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

/** Attention with bounded scores, as Gemma 2 has it. Shape: visible bool, broadcasts to [B, 1, T, S]. */
function cappedAttention(
  query: Tensor,
  key: Tensor,
  value: Tensor,
  softcap: number,
  visible: Tensor | null,
  { scale, dropout = 0 }: CachedAttentionOptions,
): Tensor {
  const [batch = 0, heads = 0, length = 0, width = 0] = query.shape;
  const [, groups = 0] = key.shape;
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
  const weights =
    visible === null
      ? scores.softmax()
      : visible.where(visible.where(scores, hidden).softmax(), full([], 0, scores.dtype));
  const kept = dropout > 0 ? functional.dropout(weights, dropout) : weights;
  const result = kept.reshape([batch, groups, (heads / groups) * length, -1]).matmul(value);
  return result.reshape([batch, heads, length, -1]);
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
