import { checkOptions } from '../../base/check-options.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import {
  adaptiveAvgPool1d,
  adaptiveAvgPool2d,
  output1dRules,
  output2dRules,
  type OutputSize2d,
} from '../functional/adaptive-avg-pool.ts';
import { Module } from '../module/module.ts';

/** The means of windows that cover one dim. The number of windows is given. */
export class AdaptiveAvgPool1d extends Module {
  readonly outputSize: number;

  /** Throws ConfigError. */
  constructor(outputSize: number) {
    super();
    checkOptions('AdaptiveAvgPool1d', { outputSize }, output1dRules);
    this.outputSize = outputSize;
  }

  /** Shape: x [N, C, L] -> [N, C, outputSize]. */
  forward(x: Tensor): Tensor {
    return adaptiveAvgPool1d(x, this.outputSize);
  }

  protected override describe(): string {
    return `outputSize=${this.outputSize}`;
  }
}

/** The means of windows that cover an image. The number of windows is given. 1 gives the mean of each channel. */
export class AdaptiveAvgPool2d extends Module {
  readonly outputSize: OutputSize2d;

  /** Throws ConfigError. */
  constructor(outputSize: OutputSize2d) {
    super();
    checkOptions('AdaptiveAvgPool2d', { outputSize }, output2dRules);
    this.outputSize = outputSize;
  }

  /** Shape: x [N, C, H, W] -> [N, C, ...outputSize]. */
  forward(x: Tensor): Tensor {
    return adaptiveAvgPool2d(x, this.outputSize);
  }

  protected override describe(): string {
    return `outputSize=${JSON.stringify(this.outputSize)}`;
  }
}
