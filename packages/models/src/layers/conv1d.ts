import { elementCount, type Parameter, type Tensor } from '@shardwise/core/extend';
import { StateModule } from '../model/state-module.ts';
import type { InitialValues } from './initial-values.ts';

/** GPT-2's linear layer, x W + b, whose weight is [inFeatures, outFeatures], the transpose of that of a Linear. */
export class Conv1D extends StateModule {
  weight: Parameter;
  bias: Parameter;

  constructor(values: InitialValues, inFeatures: number, outFeatures: number, std?: number) {
    super();
    this.weight = values.weight([inFeatures, outFeatures], std);
    this.bias = values.constant([outFeatures], 0);
  }

  /** Shape: x [.., inFeatures] -> [.., outFeatures]. */
  forward(x: Tensor): Tensor {
    return this.product(x).add(this.bias);
  }

  /** The product without the bias. */
  product(x: Tensor): Tensor {
    const leading = x.shape.slice(0, -1);
    const rows = x.reshape([elementCount(leading), x.shape.at(-1) ?? 0]);
    return rows.matmul(this.weight).reshape([...leading, -1]);
  }
}
