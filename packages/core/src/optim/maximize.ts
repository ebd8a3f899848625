import type { Tensor } from '../tensor/tensor.ts';
import type { OptimizerSettings } from './param-group.ts';

/** Settings of optimizers that can also maximize. */
export interface MaximizeSettings extends OptimizerSettings {
  /** Whether parameters are updated so that the loss grows instead of falls. */
  maximize: boolean;
}

/** The gradient of what an update makes smaller: of the loss, or of its opposite. Weight decay comes after it. */
export function descent(gradient: Tensor, { maximize }: MaximizeSettings): Tensor {
  return maximize ? gradient.neg() : gradient;
}
