import { dtypes } from '@shardwise/core/extend';
import type { AttentionSizes } from '../plan/attention-sizes.ts';
import { repeatsOfKeys } from './exchange-heads.ts';
import type { ContextMethod } from './methods.ts';
import type { SequenceCut } from './sequence-cut.ts';

/** Bytes of one rank for one layer. */
export interface AttentionCosts {
  /** What a rank sends to others in the forward pass, and in the backward pass. */
  readonly forward: number;
  readonly backward: number;
  /** The keys and values that a rank has at once. */
  readonly keys: number;
  /** What the backward pass reads: queries, keys, values and results, and one number for each query of each head. */
  readonly kept: number;
}

/**
 * What attention to the tokens of all ranks costs by a method. Collected values count without the rank's own part, as a ring of
 * messages sends them, and exchanged heads without those that stay.
 */
export function attentionCosts(
  method: ContextMethod,
  cut: SequenceCut,
  { rows, heads, keyHeads = heads, headWidth, dtype = 'f32' }: AttentionSizes,
): AttentionCosts {
  const { localLength, groups, over } = cut;
  const { ranks, neighbours } = over;
  const { bytes } = dtypes[dtype];
  const wide = dtypes.f32.bytes;
  const ofToken = rows * headWidth;
  if (method === 'allGather') {
    const keys = 2 * keyHeads * ofToken * localLength * bytes;
    const queries = heads * localLength * (2 * ofToken * bytes + rows * wide);
    const sent = (ranks - 1) * keys;
    return { forward: sent, backward: sent, keys: ranks * keys, kept: queries + ranks * keys };
  }
  // The tokens and the heads that a rank has after neighbours have exchanged them.
  const tokens = neighbours * localLength;
  const queryHeads = Math.ceil(heads / neighbours);
  const repeats = repeatsOfKeys(heads, keyHeads, neighbours);
  const ownKeyHeads = Math.ceil((keyHeads * repeats) / neighbours);
  const [ofQueries, ofKeys] = [queryHeads, ownKeyHeads].map((own) => own * ofToken * tokens);
  if (ofQueries === undefined || ofKeys === undefined) throw new RangeError('queries and keys');
  const exchanged = (2 * (ofQueries + ofKeys) * bytes * (neighbours - 1)) / neighbours;
  const passed = (groups - 1) * 2 * ofKeys;
  return {
    forward: exchanged + passed * bytes,
    // Gradients of keys and values travel in f32.
    backward: exchanged + passed * (bytes + wide),
    keys: Math.min(groups, 2) * 2 * ofKeys * bytes,
    kept: 2 * (ofQueries + ofKeys) * bytes + queryHeads * tokens * rows * wide,
  };
}
