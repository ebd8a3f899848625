import { checkOptions } from '../../base/check-options.ts';
import { BatchNorm, type BatchNormOptions, batchNormRules } from './batch-norm.ts';

/** Batch normalisation of x [N, channels] or [N, channels, L]. */
export class BatchNorm1d extends BatchNorm {
  /** Throws ConfigError. */
  constructor(channels: number, options: BatchNormOptions = {}) {
    checkOptions('BatchNorm1d', options, batchNormRules);
    super(channels, options);
  }

  protected override get inputDims(): readonly number[] {
    return [2, 3];
  }
}

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
