import type { AttentionSizes } from '../plan/attention-sizes.ts';
import { textTable } from '../plan/text-table.ts';
import { attentionCosts } from './attention-costs.ts';
import type { ContextMethod } from './methods.ts';
import type { SequenceCut } from './sequence-cut.ts';

/** The lines of `explain` that say what attention costs a rank, in bytes. */
export function describeCosts(
  method: ContextMethod,
  cut: SequenceCut,
  sizes: AttentionSizes,
): readonly string[] {
  const { forward, backward, keys, kept } = attentionCosts(method, cut, sizes);
  const { layers } = sizes;
  const row = (what: string, ofLayer: number, ofAll: number): readonly string[] => [
    `  ${what}`,
    String(ofLayer),
    String(ofAll),
  ];
  const head = [`  attention to ${sizes.tokens} tokens, bytes of a rank`, 'a layer', 'all layers'];
  return textTable([
    head,
    row('sent in the forward pass', forward, layers * forward),
    row('sent in the backward pass', backward, layers * backward),
    // Layers are computed one after the other.
    row('keys and values at once', keys, keys),
    row('kept for the backward pass', kept, layers * kept),
  ]).split('\n');
}
