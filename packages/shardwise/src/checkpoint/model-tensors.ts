import { type Module, type Shape, type Tensor } from '@shardwise/core';
import { ShardedParameter } from '@shardwise/strategies';

/** A parameter or buffer of a model. */
export interface ModelTensor {
  /** The first one names it in checkpoints; shared ones have more. */
  readonly names: readonly [string, ...string[]];
  readonly tensor: Tensor;
}

/** Each once, in the order of the model. */
export function modelTensors(model: Module): readonly ModelTensor[] {
  const names = new Map<Tensor, [string, ...string[]]>();
  for (const [name, tensor] of model.namedState()) {
    const known = names.get(tensor);
    if (known === undefined) names.set(tensor, [name]);
    else known.push(name);
  }
  return [...names].map(([tensor, all]) => ({ names: all, tensor }));
}

/** Where this rank's contents of a tensor lie in the whole. */
export interface Extent {
  /** Of the whole tensor. */
  readonly shape: Shape;
  readonly start: number;
  readonly stop: number;
  /** Of what the rank has: the range, and padding behind it. */
  readonly heldShape: Shape;
}

export function extentOf(tensor: Tensor): Extent {
  if (tensor instanceof ShardedParameter) {
    const [start, stop] = tensor.range;
    return { shape: tensor.cut.shape, start, stop, heldShape: tensor.cut.partShape };
  }
  return { shape: tensor.shape, start: 0, stop: tensor.numel, heldShape: tensor.shape };
}
