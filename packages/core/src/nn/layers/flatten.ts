import { requireIntegers } from '../../base/check-options.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { Module } from '../module/module.ts';

/** Merges dims into one. By default, these are all dims but the first. */
export class Flatten extends Module {
  readonly startDim: number;
  readonly endDim: number;

  constructor(startDim = 1, endDim = -1) {
    super();
    requireIntegers('Flatten', { startDim, endDim });
    this.startDim = startDim;
    this.endDim = endDim;
  }

  /** Shape: x [N, A, B, ..] -> [N, A*B*..]. */
  forward(x: Tensor): Tensor {
    return x.flatten(this.startDim, this.endDim);
  }

  protected override describe(): string {
    return `startDim=${this.startDim}, endDim=${this.endDim}`;
  }
}
