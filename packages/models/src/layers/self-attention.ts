import type { Linear, Tensor } from '@shardwise/core/extend';
import type { AttentionSettings, ForwardCall } from '../model/forward-call.ts';
import { StateModule } from '../model/state-module.ts';
import { attention, intoHeads, joinHeads } from './attention.ts';
import type { InitialValues } from './initial-values.ts';
import type { Norm } from './norm.ts';
import { rotate, type Rotation } from './rotary-embedding.ts';

/** The sizes and kinds of the attention of a decoder. */
export interface SelfAttentionSettings extends Omit<AttentionSettings, 'causal'> {
  readonly hiddenSize: number;
  readonly heads: number;
  /** The number of heads of keys and values, each of which serves heads / keyHeads consecutive query heads. */
  readonly keyHeads: number;
  /** The width of a head, D. */
  readonly headWidth: number;
  /** Whether queries, keys and values have a bias. */
  readonly bias: boolean;
  /** Whether the output has a bias. */
  readonly outputBias: boolean;
  /** Makes the norm of each head's queries and keys. Default: they have none. */
  readonly headNorm?: (width: number) => Norm;
}

/** Causal attention with grouped queries (Ainslie et al. 2023) and rotary positions. */
export class SelfAttention extends StateModule {
  readonly qProj: Linear;
  readonly kProj: Linear;
  readonly vProj: Linear;
  readonly oProj: Linear;
  readonly qNorm: Norm | null;
  readonly kNorm: Norm | null;
  readonly #settings: SelfAttentionSettings;

  constructor(settings: SelfAttentionSettings, values: InitialValues) {
    super();
    const { hiddenSize, heads, keyHeads, headWidth, bias, headNorm } = settings;
    this.qProj = values.linear(hiddenSize, heads * headWidth, { bias });
    this.kProj = values.linear(hiddenSize, keyHeads * headWidth, { bias });
    this.vProj = values.linear(hiddenSize, keyHeads * headWidth, { bias });
    this.oProj = values.linear(heads * headWidth, hiddenSize, { bias: settings.outputBias });
    this.qNorm = headNorm?.(headWidth) ?? null;
    this.kNorm = headNorm?.(headWidth) ?? null;
    this.#settings = settings;
  }

  /** Shape: x [B, T, C] -> [B, T, C]. */
  forward(x: Tensor, rotation: Rotation, call: ForwardCall): Tensor {
    const { layer, headWidth, scale, window, softcap, dropout = 0 } = this.#settings;
    const query = intoHeads(this.qProj.forward(x), headWidth);
    const key = intoHeads(this.kProj.forward(x), headWidth);
    const value = intoHeads(this.vProj.forward(x), headWidth);
    const attended = attention(
      rotate(this.qNorm?.forward(query) ?? query, rotation),
      rotate(this.kNorm?.forward(key) ?? key, rotation),
      value,
      call,
      {
        layer,
        dropout: this.training ? dropout : 0,
        ...(scale === undefined ? {} : { scale }),
        ...(window === undefined ? {} : { window }),
        ...(softcap === undefined ? {} : { softcap }),
      },
    );
    return this.oProj.forward(joinHeads(attended));
  }
}
