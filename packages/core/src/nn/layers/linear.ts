import { Generator } from '../../random/generator.ts';
import * as init from '../../random/init.ts';
import { defaultGenerator } from '../../random/keys.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { linear } from '../functional/linear.ts';
import { Module } from '../module/module.ts';
import { Parameter } from '../parameter/parameter.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

export interface LinearOptions {
  /** Whether there is a bias. Default: true. */
  readonly bias?: boolean;
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
}

const linearRules: OptionRules<LinearOptions> = {
  bias: option.flag,
  generator: option.instanceOf(Generator),
};
const sizeRules: OptionRules<{ inFeatures: number; outFeatures: number }> = {
  inFeatures: option.required(option.count),
  outFeatures: option.required(option.count),
};

/** x Wᵀ + b with torch.nn.Linear's initial values. Weight [out, in], bias [out]. */
export class Linear extends Module {
  weight: Parameter;
  bias: Parameter | null;

  /** Throws ConfigError. */
  constructor(inFeatures: number, outFeatures: number, options: LinearOptions = {}) {
    super();
    checkOptions('Linear', { inFeatures, outFeatures }, sizeRules);
    checkOptions('Linear', options, linearRules);
    const { bias = true, generator = defaultGenerator() } = options;
    const values = init.linear(generator, inFeatures, outFeatures, bias);
    this.weight = new Parameter(values.weight, [outFeatures, inFeatures]);
    this.bias = values.bias === undefined ? null : new Parameter(values.bias, [outFeatures]);
  }

  /** Shape: x [.., in] -> [.., out]. */
  forward(x: Tensor): Tensor {
    return linear(x, this.weight, this.bias);
  }

  protected override describe(): string {
    const [outFeatures, inFeatures] = this.weight.shape;
    return `inFeatures=${inFeatures}, outFeatures=${outFeatures}, bias=${this.bias !== null}`;
  }
}
