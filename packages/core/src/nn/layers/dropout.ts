import type { Tensor } from '../../tensor/tensor.ts';
import { checkProbability, dropout } from '../functional/dropout.ts';
import { Module } from '../module/module.ts';

/** Drops elements while training. In evaluation, it drops none. */
export class Dropout extends Module {
  readonly probability: number;

  /** Throws ConfigError for a probability outside [0, 1]. */
  constructor(probability = 0.5) {
    super();
    checkProbability(probability);
    this.probability = probability;
  }

  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return this.training ? dropout(x, this.probability) : x;
  }

  protected override describe(): string {
    return `p=${this.probability}`;
  }
}
