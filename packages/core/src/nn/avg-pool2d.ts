import type { Tensor } from '../tensor/tensor.ts';
import type { Size2d } from './functional/conv2d.ts';
import { avgPool2d, type PoolOptions } from './functional/pool2d.ts';
import { Module } from './module.ts';

/** The mean of each window. */
export class AvgPool2d extends Module {
  readonly kernel: Size2d;
  readonly options: PoolOptions;

  constructor(kernel: Size2d, options: PoolOptions = {}) {
    super();
    this.kernel = kernel;
    this.options = options;
  }

  /** Shape: x [N, C, H, W] -> [N, C, H', W']. */
  forward(x: Tensor): Tensor {
    return avgPool2d(x, this.kernel, this.options);
  }

  protected override describe(): string {
    const options = Object.entries({ kernel: this.kernel, ...this.options });
    return options.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(', ');
  }
}
