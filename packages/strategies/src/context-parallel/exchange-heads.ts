import { allToAll, concat, type Tensor, withCollectiveName, zeros } from '@shardwise/core/extend';
import type { ContextMessages } from './context-messages.ts';

/** How heads are shared by ranks that have stretches of one block of a sequence (Jacobs et al. 2023, "Ulysses"). */
export interface HeadExchange {
  readonly axis: string;
  readonly ranks: number;
  readonly messages: ContextMessages;
}

/** Queries, keys and values of all tokens of a block, for some of the heads. */
export interface ExchangedHeads {
  /** Shape: q [B, H / ranks, ranks T, D], k and v with as many tokens and a divisor of the heads. */
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
}

/**
 * Each rank gives the tokens that it has and gets the heads that it computes, by one all-to-all for queries, keys and
 * values each. Heads of keys that the ranks do not divide are repeated as often as is needed, up to one for each
 * query head, and heads of zeros are added if the ranks do not divide the query heads.
 * Shape: q [B, H, T, D], k [B, G, T, D], v [B, G, T, E].
 */
export function scatterHeads({ q, k, v }: ExchangedHeads, exchange: HeadExchange): ExchangedHeads {
  const { ranks } = exchange;
  const [, heads = 0] = q.shape;
  const [, groups = 0] = k.shape;
  const repeats = repeatsOfKeys(heads, groups, ranks);
  const exchanged = (what: string, x: Tensor, times = 1): Tensor => {
    const repeated = times === 1 ? x : x.repeatInterleave(times, 1);
    const [, own = 0] = repeated.shape;
    // The ranks divide the heads of keys, unless these are as many as those of queries.
    const whole = withHeads(repeated, Math.ceil(own / ranks) * ranks);
    return exchangedOver(exchange, what, whole, 'tokens to heads');
  };
  return {
    q: exchanged('queries', q),
    k: exchanged('keys', k, repeats),
    v: exchanged('values', v, repeats),
  };
}

/** Gives each rank its tokens of all heads back. Shape: [B, padded heads / ranks, ranks T, E] -> [B, H, T, E]. */
export function gatherHeads(y: Tensor, heads: number, exchange: HeadExchange): Tensor {
  const own = exchangedOver(exchange, 'results', y, 'heads to tokens');
  return own.shape[1] === heads ? own : own.slice(1, 0, heads);
}

/**
 * How often each head of keys is repeated so that each rank has the keys of its query heads: the smallest number with
 * which the ranks divide the heads of keys, and these the query heads.
 */
export function repeatsOfKeys(heads: number, groups: number, ranks: number): number {
  const most = heads / groups;
  for (let repeats = 1; repeats < most; repeats++) {
    const own = groups * repeats;
    if (own % ranks === 0 && heads % own === 0) return repeats;
  }
  return most;
}

function withHeads(x: Tensor, heads: number): Tensor {
  const [batch = 0, own = 0, ...rest] = x.shape;
  return own === heads ? x : concat([x, zeros([batch, heads - own, ...rest], x.dtype)], 1);
}

function exchangedOver(
  { axis, messages }: HeadExchange,
  what: string,
  x: Tensor,
  way: 'tokens to heads' | 'heads to tokens',
): Tensor {
  messages.ofAttention({
    what,
    becomes: way,
    axis,
    elements: x.numel,
    dtype: x.dtype,
    forward: 'allToAll',
    backward: x.requiresGrad ? 'allToAll' : null,
  });
  const [split, joined] = way === 'tokens to heads' ? [1, 2] : [2, 1];
  return withCollectiveName(`the exchange of heads over '${axis}'`, () =>
    allToAll(x, axis, split, joined),
  );
}
