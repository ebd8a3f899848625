import {
  checkOptions,
  ConfigError,
  option,
  type OptionRules,
  type PageStore,
  type Strategy,
} from '@shardwise/core/extend';
import { checkMixedPrecision, type MixedPrecision } from '../mixed-precision/mixed-precision.ts';
import { sameAxes } from './same-axes.ts';
import { shardingPlan } from './sharding-plan.ts';
import {
  requireWholeHosts,
  zeroPlusPlusOf,
  type ZeroPlusPlusOptions,
  zeroPlusPlusRules,
} from './zero-plus-plus.ts';
import { byLayer, type UnitOf, unitsOfModel } from '../plan/unit-names.ts';

/** Options of `fsdp`. */
export interface FullyShardedDataParallelOptions extends ZeroPlusPlusOptions {
  /** The mesh axis over which states and the batch are divided. Default: `dp`. */
  readonly axis?: string;
  /**
   * A second mesh axis, whose ranks hold the same parts and have other parts of the batch: hybrid sharding, or the axis of
   * `contextParallel`.
   */
  readonly replicas?: string;
  /**
   * Whether the whole parameters of a unit are freed after the forward pass and gathered again in the backward pass
   * (ZeRO-3), or kept until then (ZeRO-2). With a number k that divides the number of ranks, each rank keeps 1/k of
   * them, and the backward pass gathers them from k neighbouring ranks. Default: true, but false for the unit of the
   * whole model, because the backward pass needs its last layers at once.
   */
  readonly reshardAfterForward?: boolean | number;
  /**
   * Which parameters are gathered together. Default: those of the units that the model names (Module.division), or of
   * each member of the outermost lists of modules.
   */
  readonly unitOf?: UnitOf;
  /** The number of units that are gathered before they are used, in the forward and backward pass. Default: 1. */
  readonly prefetch?: number;
  /**
   * Where parts of parameters are kept between their uses (`hostPages()`, `filePages(directory)`). An
   * OffloadedOptimizer puts them back there after their update. Default: on the device.
   */
  readonly pages?: PageStore;
  /**
   * Whether all ranks get rank 0's buffers (batch-norm statistics) before each forward pass that trains, and
   * before the first one of an evaluation, as with ddp. Default: true.
   */
  readonly broadcastBuffers?: boolean;
  /**
   * Whether the losses of ranks may use different parameters. Each backward pass then reduces the gradients of all
   * trained parameters, as zeros where a rank's loss uses none. Momentum and weight decay also change parameters that
   * no rank uses. Each rank also gathers the units that it does not run. Default: false. Then ranks must use the
   * same parameters, and those without a gradient stay as they are.
   */
  readonly findUnusedParameters?: boolean;
  /** The dtypes in which values are stored, sent and reduced. Default: everything is f32. */
  readonly mixedPrecision?: MixedPrecision;
}

const optionRules: OptionRules<FullyShardedDataParallelOptions> = {
  axis: option.axisName,
  replicas: option.axisName,
  reshardAfterForward: option.either(option.flag, option.number),
  unitOf: option.callback(),
  prefetch: option.count,
  pages: option.object(),
  mixedPrecision: option.object(),
  findUnusedParameters: option.flag,
  broadcastBuffers: option.flag,
  ...zeroPlusPlusRules,
};

/**
 * Fully sharded data parallelism, like PyTorch's fully_shard (FSDP2). Parameters, gradients and optimizer states are
 * cut along dim 0 and divided among the ranks. The parameters of a unit are whole while the unit runs. Throws
 * ConfigError for options out of range, and LayoutError for replicas over the axis of the parts.
 */
export function fsdp(options: FullyShardedDataParallelOptions = {}): Strategy {
  checkOptions('fsdp', options, optionRules);
  checkMixedPrecision(options.mixedPrecision);
  const { unitOf, reshardAfterForward, replicas, pages } = options;
  const { axis = 'dp', prefetch = 1, mixedPrecision, broadcastBuffers = true } = options;
  const { findUnusedParameters = false } = options;
  if (axis === replicas) throw sameAxes('fsdp', axis);
  const plusPlus = zeroPlusPlusOf('fsdp', options);
  const { copyRanks, quantized } = plusPlus;
  if (copyRanks !== undefined && reshardAfterForward !== undefined) throw twoCopies(copyRanks);
  return {
    specificationVersion: 1,
    name: 'fsdp',
    plan: (model, axes) => {
      requireWholeHosts('fsdp', plusPlus, axis, axes);
      return shardingPlan(model, axes, {
        strategy: 'fsdp',
        axis,
        replicas,
        sharded: 'parameters',
        rule: 'rows',
        unitOf: unitOf ?? unitsOfModel(model) ?? byLayer,
        reshardAfterForward: (unit) => reshardAfterForward ?? (unit !== '' && (copyRanks ?? true)),
        prefetch,
        pages,
        mixedPrecision,
        broadcastBuffers,
        findUnusedParameters,
        quantized,
      });
    },
  };
}

function twoCopies(ranks: number): ConfigError {
  return new ConfigError(
    {
      asked: `fsdp with zeroHpzPartitionSize: ${ranks} and reshardAfterForward`,
      found: 'two options that say what is kept',
      todo: 'Leave out reshardAfterForward',
    },
    { option: 'zeroHpzPartitionSize' },
  );
}
