import { Parameter, type RMSNorm, type Tensor } from '@shardwise/core/extend';
import { StateModule } from '../model/state-module.ts';

/** A norm over the last dim with one weight for each feature. */
export type Norm = RMSNorm | OffsetRMSNorm;

/** Gemma's RMSNorm, whose factor is 1 + weight. Weight [size] of zeros. */
export class OffsetRMSNorm extends StateModule {
  weight: Parameter;
  readonly eps: number;

  constructor(size: number, eps: number) {
    super();
    this.weight = new Parameter(new Float32Array(size), [size]);
    this.eps = eps;
  }

  /** Shape: x [.., size] -> [.., size]. */
  forward(x: Tensor): Tensor {
    return x.rmsNorm(this.weight.add(1), this.eps);
  }
}
