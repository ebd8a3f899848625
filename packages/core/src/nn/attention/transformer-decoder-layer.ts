import { composedAll } from '../../realize/pending/small-values.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { Dropout } from '../layers/dropout.ts';
import { LayerNorm } from '../norm/layer-norm.ts';
import { Linear } from '../layers/linear.ts';
import { Module } from '../module/module.ts';
import { MultiheadAttention, type MultiheadAttentionCall } from './multihead-attention.ts';
import { type TransformerLayerOptions, transformerSettings } from './transformer-layer-options.ts';

/** Options of one call of `TransformerDecoderLayer`. */
export interface TransformerDecoderCall extends MultiheadAttentionCall {
  /** The mask of the attention to the memory, as scaledDotProductAttention takes it. */
  readonly memoryMask?: Tensor;
}

const callRules: OptionRules<TransformerDecoderCall> = {
  causal: option.flag,
  mask: option.instanceOf(Tensor),
  memoryMask: option.instanceOf(Tensor),
};

const torchNames: Readonly<Record<string, string>> = {
  selfAttn: 'self_attn',
  multiheadAttn: 'multihead_attn',
};

/**
 * torch.nn.TransformerDecoderLayer with batch first (Vaswani et al. 2017): self-attention, attention to the memory of
 * an encoder, and two linear layers. The result of each of these is added to its input. Masks are as in
 * TransformerEncoderLayer.
 */
export class TransformerDecoderLayer extends Module {
  selfAttn: MultiheadAttention;
  multiheadAttn: MultiheadAttention;
  linear1: Linear;
  dropout: Dropout;
  linear2: Linear;
  norm1: LayerNorm;
  norm2: LayerNorm;
  norm3: LayerNorm;
  dropout1: Dropout;
  dropout2: Dropout;
  dropout3: Dropout;
  readonly activation: 'relu' | 'gelu';
  readonly normFirst: boolean;

  /** Throws ConfigError. */
  constructor(dModel: number, numHeads: number, options: TransformerLayerOptions = {}) {
    super();
    const settings = transformerSettings('TransformerDecoderLayer', options);
    const { dimFeedforward, dropout, generator, layerNormEps: eps } = settings;
    this.selfAttn = new MultiheadAttention(dModel, numHeads, { dropout, generator });
    this.multiheadAttn = new MultiheadAttention(dModel, numHeads, { dropout, generator });
    this.linear1 = new Linear(dModel, dimFeedforward, { generator });
    this.dropout = new Dropout(dropout);
    this.linear2 = new Linear(dimFeedforward, dModel, { generator });
    this.norm1 = new LayerNorm(dModel, { eps });
    this.norm2 = new LayerNorm(dModel, { eps });
    this.norm3 = new LayerNorm(dModel, { eps });
    this.dropout1 = new Dropout(dropout);
    this.dropout2 = new Dropout(dropout);
    this.dropout3 = new Dropout(dropout);
    this.activation = settings.activation;
    this.normFirst = settings.normFirst;
  }

  /** Shape: x [B, T, E], memory [B, S, E] -> [B, T, E]. Throws ShapeError. */
  forward(x: Tensor, memory: Tensor, call: TransformerDecoderCall = {}): Tensor {
    checkOptions('TransformerDecoderLayer', call, callRules);
    const { memoryMask, ...own } = call;
    const toMemory = memoryMask === undefined ? {} : { mask: memoryMask };
    const attend = (y: Tensor): Tensor => this.dropout1.forward(this.selfAttn.forward(y, own));
    const remember = (y: Tensor): Tensor =>
      this.dropout2.forward(this.multiheadAttn.attend(y, memory, memory, toMemory));
    const feed = (y: Tensor): Tensor => {
      const inner = this.dropout.forward(this.linear1.forward(y)[this.activation]());
      return this.dropout3.forward(this.linear2.forward(inner));
    };
    return composedAll(
      () => {
        if (this.normFirst) {
          const attended = x.add(attend(this.norm1.forward(x)));
          const remembered = attended.add(remember(this.norm2.forward(attended)));
          return remembered.add(feed(this.norm3.forward(remembered)));
        }
        const attended = this.norm1.forward(x.add(attend(x)));
        const remembered = this.norm2.forward(attended.add(remember(attended)));
        return this.norm3.forward(remembered.add(feed(remembered)));
      },
      (made) => [made],
    );
  }

  protected override nameOf(field: string): string {
    return torchNames[field] ?? field;
  }
}
