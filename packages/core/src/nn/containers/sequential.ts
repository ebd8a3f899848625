import type { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module/module.ts';
import { ModuleList } from './module-list.ts';

/** A module from one tensor to one tensor. */
export type Layer = Module & { forward(x: Tensor): Tensor };

/** Layers that are applied one after another, named 0, 1, …. */
export class Sequential extends ModuleList<Layer> {
  constructor(...layers: Layer[]) {
    super(layers);
  }

  forward(x: Tensor): Tensor {
    let y = x;
    for (const layer of this) y = layer.forward(y);
    return y;
  }
}
