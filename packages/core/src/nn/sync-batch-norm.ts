import { axisOf } from '../mesh.ts';
import { currentSession } from '../rank.ts';
import { checkOptions } from '../spec/check-options.ts';
import * as option from '../spec/option-rules.ts';
import type { OptionRules } from '../spec/option-rules.ts';
import { allReduce, reinterpret } from '../tensor/collectives.ts';
import { concat, full } from '../tensor/create.ts';
import type { Tensor } from '../tensor/tensor.ts';
import {
  BatchNorm,
  type BatchNormOptions,
  batchNormRules,
  type BatchStatistics,
  perChannel,
} from './batch-norm.ts';

export interface SyncBatchNormOptions extends BatchNormOptions {
  /** The mesh axis whose ranks have other items of the batch; default `dp`. */
  readonly axis?: string;
}

const syncRules: OptionRules<SyncBatchNormOptions> = { ...batchNormRules, axis: option.axisName };

/**
 * Batch normalisation with the statistics of the whole batch, of which each rank of an axis has a part: two
 * all-reduces of a few numbers for each channel. On one rank it is BatchNorm.
 */
export class SyncBatchNorm extends BatchNorm {
  readonly axis: string;

  /** Throws ConfigError. */
  constructor(channels: number, options: SyncBatchNormOptions = {}) {
    checkOptions('SyncBatchNorm', options, syncRules);
    super(channels, options);
    this.axis = options.axis ?? 'dp';
  }

  protected override get inputDims(): readonly number[] {
    return [2, 3, 4, 5];
  }

  /** A collective of the graph. Throws ConfigError for a mesh without the axis. */
  protected override statistics(x: Tensor, dims: readonly number[]): BatchStatistics {
    const { mesh } = currentSession();
    const { axis } = this;
    const { size } = mesh.axes.length === 0 ? { size: 1 } : axisOf(mesh, axis);
    if (size === 1) return super.statistics(x, dims);
    const channels = this.runningMean.numel;
    // Ranks may have batches of different sizes.
    const own = reinterpret(full([1], x.numel / channels), axis, 'replicate', 'varying');
    const sums = allReduce(concat([x.sum(dims), own]), axis);
    const count = sums.slice(0, channels).detach();
    const mean = sums.slice(0, 0, channels).div(count);
    const squares = x.sub(perChannel(mean, x)).square().sum(dims);
    const sum = allReduce(squares, axis);
    return { mean, variance: sum.div(count), unbiased: sum.div(count.sub(1)) };
  }
}
