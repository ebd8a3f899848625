import { Generator } from '../../random/generator.ts';
import * as init from '../../random/init.ts';
import { defaultGenerator } from '../../random/keys.ts';
import { sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { lowered } from '../functional/lowered.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';
import { requireShape } from '../functional/require-shape.ts';

/** The activation between the two products of an expert. `swiglu` multiplies by a third product (Shazeer 2020). */
export type ExpertActivation = 'relu' | 'gelu' | 'silu' | 'swiglu';

/** Options of `Experts`. */
export interface ExpertsOptions {
  /** The activation. Default: gelu. */
  readonly activation?: ExpertActivation;
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
}

export const expertsRules: OptionRules<ExpertsOptions> = {
  activation: option.oneOf('relu', 'gelu', 'silu', 'swiglu'),
  generator: option.instanceOf(Generator),
};

/**
 * Experts, each of which consists of two linear layers without bias, with the initial values of nn.Linear. For
 * E experts, C features and H hidden features: up [E, C, H], down [E, H, C], and with swiglu gate [E, C, H].
 */
export class Experts extends Module {
  up: Parameter;
  gate: Parameter | null;
  down: Parameter;
  readonly activation: ExpertActivation;

  constructor(
    count: number,
    features: number,
    hiddenFeatures: number,
    options: ExpertsOptions = {},
  ) {
    super();
    checkOptions('Experts', options, expertsRules);
    const { activation = 'gelu', generator = defaultGenerator() } = options;
    const matrices = (inFeatures: number, outFeatures: number): Parameter => {
      const bound = 1 / Math.sqrt(inFeatures);
      const shape = [count, inFeatures, outFeatures];
      return new Parameter(init.uniform(generator, shape, -bound, bound), shape);
    };
    this.up = matrices(features, hiddenFeatures);
    this.gate = activation === 'swiglu' ? matrices(features, hiddenFeatures) : null;
    this.down = matrices(hiddenFeatures, features);
    this.activation = activation;
  }

  /**
   * Computes rows, which must be in the order of their experts. `counts` is the number of rows of each expert. Rows
   * after these give 0. No expert has more than `_most` rows: ranks over which experts are sharded reserve room for so many.
   * Default: the number of rows. While rows are on their way to other ranks, the values that `_meanwhile` builds are
   * computed.
   * Shape: x [N, C], counts i32 [E] -> [N, C].
   */
  forward(x: Tensor, counts: Tensor, _most?: number, _meanwhile?: () => void): Tensor {
    const { up, gate, down, activation } = this;
    const features = ['features', sizeAt(up.shape, 1)] as const;
    requireShape({ operation: 'Experts', name: 'x', value: x }, ['N', features]);
    const rows = lowered(x);
    const hidden = rows.groupedMatmul(up, counts);
    if (gate !== null) {
      return hidden.mul(rows.groupedMatmul(gate, counts).silu()).groupedMatmul(down, counts);
    }
    return activated(hidden, activation).groupedMatmul(down, counts);
  }

  protected override describe(): string {
    const [count, features, hiddenFeatures] = this.up.shape;
    return `${count}, features=${features}, hiddenFeatures=${hiddenFeatures}, activation=${this.activation}`;
  }
}

function activated(x: Tensor, activation: ExpertActivation): Tensor {
  if (activation === 'relu') return x.relu();
  return activation === 'silu' ? x.silu() : x.gelu();
}
