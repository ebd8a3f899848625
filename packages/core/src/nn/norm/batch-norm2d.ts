import { checkOptions } from '../../base/check-options.ts';
import { BatchNorm, type BatchNormOptions, batchNormRules } from './batch-norm.ts';

/** Batch normalisation of x [N, channels, H, W]. */
export class BatchNorm2d extends BatchNorm {
  /** Throws ConfigError. */
  constructor(channels: number, options: BatchNormOptions = {}) {
    checkOptions('BatchNorm2d', options, batchNormRules);
    super(channels, options);
  }

  protected override get inputDims(): readonly number[] {
    return [4];
  }
}
