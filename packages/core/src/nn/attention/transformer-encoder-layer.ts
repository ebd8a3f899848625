import { composedAll } from '../../realize/pending/small-values.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { Dropout } from '../layers/dropout.ts';
import { LayerNorm } from '../norm/layer-norm.ts';
import { Linear } from '../layers/linear.ts';
import { Module } from '../module/module.ts';
import { MultiheadAttention, type MultiheadAttentionCall } from './multihead-attention.ts';
import { type TransformerLayerOptions, transformerSettings } from './transformer-layer-options.ts';

const torchNames: Readonly<Record<string, string>> = { selfAttn: 'self_attn' };

/**
 * torch.nn.TransformerEncoderLayer with batch first (Vaswani et al. 2017): self-attention and two linear layers. The
 * result of each of these is added to its input. Masks are those of scaledDotProductAttention: in a mask of bools, true
 * marks a key that may be seen. In PyTorch's layer it is the opposite.
 */
export class TransformerEncoderLayer extends Module {
  selfAttn: MultiheadAttention;
  linear1: Linear;
  dropout: Dropout;
  linear2: Linear;
  norm1: LayerNorm;
  norm2: LayerNorm;
  dropout1: Dropout;
  dropout2: Dropout;
  readonly activation: 'relu' | 'gelu';
  readonly normFirst: boolean;

  /** Throws ConfigError. */
  constructor(dModel: number, numHeads: number, options: TransformerLayerOptions = {}) {
    super();
    const settings = transformerSettings('TransformerEncoderLayer', options);
    const { dimFeedforward, dropout, generator, layerNormEps: eps } = settings;
    this.selfAttn = new MultiheadAttention(dModel, numHeads, { dropout, generator });
    this.linear1 = new Linear(dModel, dimFeedforward, { generator });
    this.dropout = new Dropout(dropout);
    this.linear2 = new Linear(dimFeedforward, dModel, { generator });
    this.norm1 = new LayerNorm(dModel, { eps });
    this.norm2 = new LayerNorm(dModel, { eps });
    this.dropout1 = new Dropout(dropout);
    this.dropout2 = new Dropout(dropout);
    this.activation = settings.activation;
    this.normFirst = settings.normFirst;
  }

  /** Shape: x [B, T, E] -> [B, T, E]. Throws ShapeError. */
  forward(x: Tensor, call: MultiheadAttentionCall = {}): Tensor {
    const attend = (y: Tensor): Tensor => this.dropout1.forward(this.selfAttn.forward(y, call));
    const feed = (y: Tensor): Tensor => {
      const inner = this.dropout.forward(this.linear1.forward(y)[this.activation]());
      return this.dropout2.forward(this.linear2.forward(inner));
    };
    return composedAll(
      () => {
        if (this.normFirst) {
          const attended = x.add(attend(this.norm1.forward(x)));
          return attended.add(feed(this.norm2.forward(attended)));
        }
        const attended = this.norm1.forward(x.add(attend(x)));
        return this.norm2.forward(attended.add(feed(attended)));
      },
      (made) => [made],
    );
  }

  protected override nameOf(field: string): string {
    return torchNames[field] ?? field;
  }
}
