import type { Tensor } from '../tensor/tensor.ts';
import { Module } from './module.ts';

/** x sigmoid(x). */
export class SiLU extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.silu();
  }
}
