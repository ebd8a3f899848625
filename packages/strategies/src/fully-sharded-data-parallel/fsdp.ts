import {
  checkOptions,
  LayoutError,
  option,
  type OptionRules,
  type PageStore,
  type Strategy,
} from '@shardwise/core/extend';
import { checkMixedPrecision, type MixedPrecision } from '../mixed-precision/mixed-precision.ts';
import { shardingPlan } from '../sharding/sharding-plan.ts';
import { outermostListMember, type UnitOf } from '../sharding/unit-names.ts';

/** Options of `fsdp`. */
export interface FullyShardedDataParallelOptions {
  /** The mesh axis over which states and batch are shared out. Default: `dp`. */
  readonly axis?: string;
  /** A second mesh axis, whose ranks hold the same parts (hybrid sharding). */
  readonly replicas?: string;
  /**
   * Whether a unit's whole parameters are freed after forward and collected again in backward
   * (ZeRO-3) or kept until backward (ZeRO-2). A number k that divides the ranks: each keeps 1/k of
   * them, and backward collects them from k neighbouring ranks. Default: true, but for the unit of the
   * whole model, of which backward needs the last layers at once.
   */
  readonly reshardAfterForward?: boolean | number;
  /** Which module's parameters are collected together. Default: members of the outermost lists. */
  readonly unitOf?: UnitOf;
  /** How many units are collected ahead of their use, in forward and in backward. Default: 1. */
  readonly prefetch?: number;
  /**
   * Where parts of parameters are kept between their uses (`hostPages()`, `filePages(directory)`); an
   * OffloadedOptimizer takes them back there after their update. Default: on the device.
   */
  readonly pages?: PageStore;
  /**
   * Rank 0's buffers (batch-norm statistics) go to all ranks before each forward pass that trains, and
   * before the first one of an evaluation, as with ddp. Default: true.
   */
  readonly broadcastBuffers?: boolean;
  /** What is stored, sent and reduced in fewer bits. Default: everything is f32. */
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
  broadcastBuffers: option.flag,
};

/**
 * Parameters, gradients and optimizer states are cut along dim 0 and shared out; a unit's
 * parameters are whole while it runs. As PyTorch's fully_shard (FSDP2). Throws ConfigError for options
 * out of range, LayoutError for replicas over the axis of the parts.
 */
export function fsdp(options: FullyShardedDataParallelOptions = {}): Strategy {
  checkOptions('fsdp', options, optionRules);
  checkMixedPrecision(options.mixedPrecision);
  const { unitOf = outermostListMember, reshardAfterForward, replicas, pages } = options;
  const { axis = 'dp', prefetch = 1, mixedPrecision, broadcastBuffers = true } = options;
  if (axis === replicas) throw sameAxes(axis);
  return {
    name: 'fsdp',
    plan: (model, axes) =>
      shardingPlan(model, axes, {
        strategy: 'fsdp',
        axis,
        replicas,
        sharded: 'parameters',
        rule: 'rows',
        unitOf,
        reshardAfterForward: (unit) => reshardAfterForward ?? unit !== '',
        gradientGroupOf: unitOf,
        prefetch,
        pages,
        mixedPrecision,
        broadcastBuffers,
      }),
  };
}

function sameAxes(axis: string): LayoutError {
  return new LayoutError(
    {
      asked: `fsdp over the mesh axis '${axis}', in replicas over '${axis}'`,
      found: 'one axis, whose ranks cannot hold different parts and the same ones',
      todo: 'Use a mesh of two axes, and name one for each',
    },
    { axis },
  );
}
