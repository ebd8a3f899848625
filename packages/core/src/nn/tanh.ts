import type { Tensor } from '../tensor/tensor.ts';
import { Module } from './module.ts';

/** Hyperbolic tangent. */
export class Tanh extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.tanh();
  }
}
