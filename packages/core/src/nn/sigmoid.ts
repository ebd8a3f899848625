import type { Tensor } from '../tensor/tensor.ts';
import { Module } from './module.ts';

/** 1 / (1 + exp(-x)). */
export class Sigmoid extends Module {
  /** Shape: x N -> N. */
  forward(x: Tensor): Tensor {
    return x.sigmoid();
  }
}
