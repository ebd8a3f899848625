import type { Tensor } from '../tensor/tensor.ts';
import { Module } from './module.ts';

/** max(x, 0). */
export class ReLU extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.relu();
  }
}
