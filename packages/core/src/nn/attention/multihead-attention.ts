import { Generator } from '../../random/generator.ts';
import * as init from '../../random/init.ts';
import { defaultGenerator } from '../../random/keys.ts';
import { ConfigError } from '../../spec/errors.ts';
import { sizeAt } from '../../base/shape.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { attentionRules, scaledDotProductAttention } from '../functional/attention.ts';
import { linear } from '../functional/linear.ts';
import { Linear } from '../layers/linear.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';
import { requireShape } from '../functional/require-shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { composedAll } from '../../realize/pending/small-values.ts';

/** Options of `MultiheadAttention`. */
export interface MultiheadAttentionOptions {
  /** Whether the projections have biases. Default: true. */
  readonly bias?: boolean;
  /** The probability with which an attention weight is dropped while training. Default: 0. */
  readonly dropout?: number;
  /** The number of heads of keys and values. Each serves numHeads / keyHeads query heads. Default: numHeads. */
  readonly keyHeads?: number;
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
}

/** Options of one call of `MultiheadAttention`. */
export interface MultiheadAttentionCall {
  /** Whether each position sees only itself and earlier ones. Default: false. */
  readonly causal?: boolean;
  /** The mask, as scaledDotProductAttention takes it. */
  readonly mask?: Tensor;
}

const multiheadRules: OptionRules<MultiheadAttentionOptions> = {
  bias: option.flag,
  dropout: option.fraction,
  keyHeads: option.integer(1),
  generator: option.instanceOf(Generator),
};
const sizeRules: OptionRules<{ embedDim: number; numHeads: number }> = {
  embedDim: option.required(option.integer(1)),
  numHeads: option.required(option.integer(1)),
};
const callRules: OptionRules<MultiheadAttentionCall> = {
  causal: attentionRules.causal,
  mask: attentionRules.mask,
};

const torchNames: Readonly<Record<string, string>> = {
  inProjWeight: 'in_proj_weight',
  inProjBias: 'in_proj_bias',
  outProj: 'out_proj',
};

/**
 * torch.nn.MultiheadAttention with batch first (Vaswani et al. 2017), and with grouped queries (Ainslie et al.
 * 2023). E = embedDim, D = E / numHeads. inProjWeight [E + 2 keyHeads D, E] contains the rows of queries, keys
 * and values in this order. This is PyTorch's layout if keyHeads is numHeads.
 */
export class MultiheadAttention extends Module {
  inProjWeight: Parameter;
  inProjBias: Parameter | null;
  outProj: Linear;
  /** The number of heads whose rows this module holds. If heads are sharded over ranks, it is this rank's number. */
  numHeads: number;
  keyHeads: number;
  /** The number of features of a head. */
  readonly headWidth: number;
  readonly dropout: number;

  /** Throws ConfigError if the numbers of heads do not divide. */
  constructor(embedDim: number, numHeads: number, options: MultiheadAttentionOptions = {}) {
    super();
    checkOptions('MultiheadAttention', { embedDim, numHeads }, sizeRules);
    checkOptions('MultiheadAttention', options, multiheadRules);
    const {
      bias = true,
      dropout = 0,
      keyHeads = numHeads,
      generator = defaultGenerator(),
    } = options;
    checkHeads(embedDim, numHeads, keyHeads);
    // PyTorch draws the output projection first, then the input projection, and zeroes the biases.
    this.outProj = new Linear(embedDim, embedDim, { bias, generator });
    if (bias) this.outProj.bias = new Parameter(init.zeros([embedDim]), [embedDim]);
    this.headWidth = embedDim / numHeads;
    const rows = embedDim + 2 * keyHeads * this.headWidth;
    const weight = init.xavierUniform(generator, [rows, embedDim]);
    this.inProjWeight = new Parameter(weight, [rows, embedDim]);
    this.inProjBias = bias ? new Parameter(init.zeros([rows]), [rows]) : null;
    this.numHeads = numHeads;
    this.keyHeads = keyHeads;
    this.dropout = dropout;
  }

  /** Self-attention. Shape: x [B, T, E] -> [B, T, E]. */
  forward(x: Tensor, call: MultiheadAttentionCall = {}): Tensor {
    this.#requireInput('x', x);
    return composedAll(
      () => {
        const { numHeads, keyHeads } = this;
        const all = this.#heads(linear(x, this.inProjWeight, this.inProjBias));
        const q = all.slice(1, 0, numHeads);
        const k = all.slice(1, numHeads, numHeads + keyHeads);
        const v = all.slice(1, numHeads + keyHeads);
        return this.#attend(q, k, v, call);
      },
      (made) => [made],
    );
  }

  /** Cross-attention. Shape: query [B, T, E], key [B, S, E], values [B, S, E] -> [B, T, E]. */
  attend(query: Tensor, key: Tensor, values: Tensor, call: MultiheadAttentionCall = {}): Tensor {
    for (const [name, value] of Object.entries({ query, key, values })) {
      this.#requireInput(name, value);
    }
    return composedAll(
      () => {
        const width = this.numHeads * this.headWidth;
        const keyRows = this.keyHeads * this.headWidth;
        const project = (x: Tensor, start: number, stop: number): Tensor => {
          const weight = this.inProjWeight.slice(0, start, stop);
          return this.#heads(linear(x, weight, this.inProjBias?.slice(0, start, stop)));
        };
        const q = project(query, 0, width);
        const k = project(key, width, width + keyRows);
        const v = project(values, width + keyRows, width + 2 * keyRows);
        return this.#attend(q, k, v, call);
      },
      (made) => [made],
    );
  }

  #requireInput(name: string, value: Tensor): void {
    const features = ['features', sizeAt(this.inProjWeight.shape, 1)] as const;
    requireShape({ operation: 'MultiheadAttention', name, value }, ['B', 'T', features]);
  }

  /** Splits the features into heads. Shape: [B, T, heads*D] -> [B, heads, T, D]. */
  #heads(x: Tensor): Tensor {
    const [batch = 0, length = 0] = x.shape;
    return x.reshape([batch, length, -1, this.headWidth]).permute([0, 2, 1, 3]);
  }

  #attend(q: Tensor, k: Tensor, v: Tensor, call: MultiheadAttentionCall): Tensor {
    checkOptions('MultiheadAttention', call, callRules);
    const dropped = this.training ? this.dropout : 0;
    const y = scaledDotProductAttention(q, k, v, { ...call, dropout: dropped });
    return this.outProj.forward(y.permute([0, 2, 1, 3]).flatten(2));
  }

  protected override nameOf(field: string): string {
    return torchNames[field] ?? field;
  }

  protected override describe(): string {
    return `embedDim=${sizeAt(this.inProjWeight.shape, 1)}, numHeads=${this.numHeads}, keyHeads=${this.keyHeads}`;
  }
}

function checkHeads(embedDim: number, numHeads: number, keyHeads: number): void {
  if (Number.isInteger(embedDim / numHeads) && Number.isInteger(numHeads / keyHeads)) return;
  throw new ConfigError(
    {
      asked: `attention of width ${embedDim} with ${numHeads} heads over ${keyHeads} key heads`,
      found: 'numbers that do not divide each other',
      todo: 'Make embedDim a multiple of numHeads, and numHeads a multiple of keyHeads',
    },
    { embedDim, numHeads, keyHeads },
  );
}
