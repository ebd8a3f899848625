import { elementCount, formatShape } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ShapeError } from '../../spec/errors.ts';
import { requireTensors } from '../../tensor/check-arguments.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { GroupNorm, type GroupNormOptions, groupNormRules } from './group-norm.ts';

/**
 * Normalises each channel of each item (Ulyanov et al. 2016). It is a GroupNorm with one channel per group, and by
 * default not affine.
 */
abstract class InstanceNorm extends GroupNorm {
  /** Throws ConfigError. */
  constructor(channels: number, options: GroupNormOptions = {}) {
    checkOptions('InstanceNorm', options, groupNormRules);
    super(channels, channels, { ...options, affine: options.affine ?? false });
  }

  /**
   * The number of dims is inputDims. Throws ShapeError, also for one value per channel, of which normalisation would
   * leave nothing. Shape: x [N, channels, ...] -> the same.
   */
  override forward(x: Tensor): Tensor {
    const { name } = this.constructor;
    requireTensors(name, { x });
    const { shape } = x;
    const values = elementCount(shape.slice(2));
    if (shape.length === this.inputDims && values !== 1) return super.forward(x);
    throw new ShapeError(
      {
        asked: `${name} with x of shape ${formatShape(shape)}`,
        found:
          shape.length === this.inputDims
            ? 'one value for each channel of an item, which has no variance'
            : `${shape.length} dims instead of ${this.inputDims}`,
        todo: `Use x of ${this.inputDims} dims: items, channels, and what each channel has`,
      },
      { shape },
    );
  }

  protected override describe(): string {
    return `${this.numChannels}, eps=${this.eps}, affine=${this.weight !== null}`;
  }

  /** The number of dims of an input, including batch and channels. */
  protected abstract get inputDims(): number;
}

/** Instance normalisation of sequences. Shape: x [N, channels, L] -> the same. */
export class InstanceNorm1d extends InstanceNorm {
  protected override get inputDims(): number {
    return 3;
  }
}

/** Instance normalisation of images. Shape: x [N, channels, H, W] -> the same. */
export class InstanceNorm2d extends InstanceNorm {
  protected override get inputDims(): number {
    return 4;
  }
}

/** Instance normalisation of volumes. Shape: x [N, channels, D, H, W] -> the same. */
export class InstanceNorm3d extends InstanceNorm {
  protected override get inputDims(): number {
    return 5;
  }
}
