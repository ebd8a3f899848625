import { checkOptions } from '../../base/check-options.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import {
  avgPool1d,
  kernel1dRules,
  maxPool1d,
  type MaxPool1dOptions,
  maxPool1dRules,
  type Pool1dOptions,
  pool1dRules,
} from '../functional/pool1d.ts';
import { Module } from '../module/module.ts';

/** The base class of pools over one dim. */
abstract class Pool1d<Options extends object> extends Module {
  readonly kernel: number;
  readonly options: Options;

  constructor(kernel: number, options: Options) {
    super();
    this.kernel = kernel;
    this.options = options;
  }

  protected override describe(): string {
    const options = Object.entries({ kernel: this.kernel, ...this.options });
    return options.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(', ');
  }
}

/** The maximum of each window of one dim. */
export class MaxPool1d extends Pool1d<MaxPool1dOptions> {
  /** Throws ConfigError. */
  constructor(kernel: number, options: MaxPool1dOptions = {}) {
    checkOptions('MaxPool1d', { kernel }, kernel1dRules);
    checkOptions('MaxPool1d', options, maxPool1dRules);
    super(kernel, options);
  }

  /** Shape: x [N, C, L] -> [N, C, L']. */
  forward(x: Tensor): Tensor {
    return maxPool1d(x, this.kernel, this.options);
  }
}

/** The mean of each window of one dim. */
export class AvgPool1d extends Pool1d<Pool1dOptions> {
  /** Throws ConfigError. */
  constructor(kernel: number, options: Pool1dOptions = {}) {
    checkOptions('AvgPool1d', { kernel }, kernel1dRules);
    checkOptions('AvgPool1d', options, pool1dRules);
    super(kernel, options);
  }

  /** Shape: x [N, C, L] -> [N, C, L']. */
  forward(x: Tensor): Tensor {
    return avgPool1d(x, this.kernel, this.options);
  }
}
