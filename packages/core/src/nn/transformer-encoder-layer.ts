import { Generator } from '../random/generator.ts';
import { defaultGenerator } from '../random/keys.ts';
import { composed } from '../realize/small-values.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { Dropout } from './dropout.ts';
import { LayerNorm } from './layer-norm.ts';
import { Linear } from './linear.ts';
import { Module } from './module.ts';
import { MultiheadAttention, type MultiheadAttentionCall } from './multihead-attention.ts';

export interface TransformerLayerOptions {
  /** Width between the two linear layers; default 2048. */
  readonly dimFeedforward?: number;
  /** Of attention weights, and of what each part of the layer gives; default 0.1. */
  readonly dropout?: number;
  /** Default relu. */
  readonly activation?: 'relu' | 'gelu';
  /** Default 1e-5. */
  readonly layerNormEps?: number;
  /** Whether each part normalises what it gets, and not what it gives; default false. */
  readonly normFirst?: boolean;
  /** Source of initial values; default the rank's generator. */
  readonly generator?: Generator;
}

export const transformerRules: OptionRules<TransformerLayerOptions> = {
  dimFeedforward: option.integer(1),
  dropout: option.share,
  activation: option.oneOf('relu', 'gelu'),
  layerNormEps: option.nonNegative,
  normFirst: option.flag,
  generator: option.instanceOf(Generator),
};

const torchNames: Readonly<Record<string, string>> = { selfAttn: 'self_attn' };

/**
 * torch.nn.TransformerEncoderLayer with batch first (Vaswani et al. 2017): self-attention, then two linear layers, each
 * added to what it gets. Masks are as those of scaledDotProductAttention: a bool says what may be seen, where
 * PyTorch's layer has the opposite.
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
    checkOptions('TransformerEncoderLayer', options, transformerRules);
    const {
      dimFeedforward = 2048,
      dropout = 0.1,
      activation = 'relu',
      normFirst = false,
    } = options;
    const { layerNormEps: eps = 1e-5, generator = defaultGenerator() } = options;
    this.selfAttn = new MultiheadAttention(dModel, numHeads, { dropout, generator });
    this.linear1 = new Linear(dModel, dimFeedforward, { generator });
    this.dropout = new Dropout(dropout);
    this.linear2 = new Linear(dimFeedforward, dModel, { generator });
    this.norm1 = new LayerNorm(dModel, { eps });
    this.norm2 = new LayerNorm(dModel, { eps });
    this.dropout1 = new Dropout(dropout);
    this.dropout2 = new Dropout(dropout);
    this.activation = activation;
    this.normFirst = normFirst;
  }

  /** Shape: x [B, T, E] -> [B, T, E]. Throws ShapeError. */
  forward(x: Tensor, call: MultiheadAttentionCall = {}): Tensor {
    const attend = (y: Tensor): Tensor => this.dropout1.forward(this.selfAttn.forward(y, call));
    const feed = (y: Tensor): Tensor => {
      const inner = this.dropout.forward(this.linear1.forward(y)[this.activation]());
      return this.dropout2.forward(this.linear2.forward(inner));
    };
    return composed(() => {
      if (this.normFirst) {
        const attended = x.add(attend(this.norm1.forward(x)));
        return attended.add(feed(this.norm2.forward(attended)));
      }
      const attended = this.norm1.forward(x.add(attend(x)));
      return this.norm2.forward(attended.add(feed(attended)));
    });
  }

  protected override nameOf(field: string): string {
    return torchNames[field] ?? field;
  }
}
