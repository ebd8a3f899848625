import type { Tensor } from '../tensor/tensor.ts';
import { Module } from './module.ts';

/** Gives what it gets, as in the place of a layer that a model does without. */
export class Identity extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x;
  }
}
