import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { BatchNorm, type BatchNormOptions, batchNormRules } from './batch-norm.ts';
import type { Module } from '../module/module.ts';

/** Options of `SyncBatchNorm`. */
export interface SyncBatchNormOptions extends BatchNormOptions {
  /** The mesh axis whose ranks have other items of the batch. Default: `dp`. */
  readonly axis?: string;
}

const syncRules: OptionRules<SyncBatchNormOptions> = { ...batchNormRules, axis: option.axisName };
const axisRules: OptionRules<{ axis: string }> = { axis: option.required(option.axisName) };

/**
 * Normalises with the statistics of the whole batch, of which each rank of an axis has a part. On one rank it is
 * BatchNorm.
 */
export class SyncBatchNorm extends BatchNorm {
  /** Throws ConfigError. */
  constructor(channels: number, options: SyncBatchNormOptions = {}) {
    checkOptions('SyncBatchNorm', options, syncRules);
    super(channels, options);
    this.axis = options.axis ?? 'dp';
  }

  protected override get inputDims(): readonly number[] {
    return [2, 3, 4, 5];
  }
}

/**
 * Makes all batch norms of a model use the statistics of the whole batch, of which each rank of `axis` has a part
 * (torch.nn.SyncBatchNorm.convert_sync_batchnorm). The modules themselves are kept. Throws ConfigError.
 */
export function convertSyncBatchNorm<M extends Module>(model: M, axis = 'dp'): M {
  checkOptions('convertSyncBatchNorm', { axis }, axisRules);
  for (const [, module] of model.namedModules()) {
    if (module instanceof BatchNorm) module.axis = axis;
  }
  return model;
}
