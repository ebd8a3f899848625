import type { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module/module.ts';

/** A parameter or buffer of a model. */
export interface ModelTensor {
  /** The names of the tensor. Checkpoints store it under the first one. Only shared tensors have more. */
  readonly names: readonly [string, ...string[]];
  readonly tensor: Tensor;
}

/** Returns each parameter and buffer once, in the order of the model. */
export function modelTensors(model: Module): readonly ModelTensor[] {
  const names = new Map<Tensor, [string, ...string[]]>();
  for (const [name, tensor] of model.namedState()) {
    const known = names.get(tensor);
    if (known === undefined) names.set(tensor, [name]);
    else known.push(name);
  }
  return [...names].map(([tensor, all]) => ({ names: all, tensor }));
}
