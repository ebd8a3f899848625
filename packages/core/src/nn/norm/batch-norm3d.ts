import { checkOptions } from '../../base/check-options.ts';
import { BatchNorm, type BatchNormOptions, batchNormRules } from './batch-norm.ts';

/** Batch normalisation of x [N, channels, D, H, W]. */
export class BatchNorm3d extends BatchNorm {
  /** Throws ConfigError. */
  constructor(channels: number, options: BatchNormOptions = {}) {
    checkOptions('BatchNorm3d', options, batchNormRules);
    super(channels, options);
  }

  protected override get inputDims(): readonly number[] {
    return [5];
  }
}
