import type { Tensor } from '../tensor/tensor.ts';
import { Module } from './module.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';

const geluRules: OptionRules<{ approximate: 'none' | 'tanh' }> = {
  approximate: option.required(option.oneOf('none', 'tanh')),
};

/** x Φ(x) (Hendrycks and Gimpel 2016): exact, or with the tanh approximation of GPT-2. */
export class GELU extends Module {
  readonly approximate: 'none' | 'tanh';

  constructor(approximate: 'none' | 'tanh' = 'none') {
    super();
    checkOptions('GELU', { approximate }, geluRules);
    this.approximate = approximate;
  }

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.gelu(this.approximate);
  }

  protected override describe(): string {
    return `approximate='${this.approximate}'`;
  }
}
