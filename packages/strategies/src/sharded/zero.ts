import {
  checkOptions,
  ConfigError,
  option,
  type OptionRules,
  type ParameterSpec,
  type Strategy,
} from '@shardwise/core/extend';
import { assignBuckets } from '../distributed-data-parallel/buckets.ts';
import { checkMixedPrecision, type MixedPrecision } from '../mixed-precision/mixed-precision.ts';
import { sameAxes } from './same-axes.ts';
import { type ShardingOptions, shardingPlan } from './sharding-plan.ts';
import {
  requireWholeHosts,
  zeroPlusPlusOf,
  type ZeroPlusPlusOptions,
  zeroPlusPlusRules,
} from './zero-plus-plus.ts';
import { byLayer, oneUnit, type UnitOf, unitsOfModel } from '../plan/unit-names.ts';

/** The states that the ranks divide. 1: optimizer states. 2: gradients as well. 3: parameters as well. */
export type ZeroStage = 1 | 2 | 3;

/** Options of `zero`. */
export interface ZeroOptions extends ZeroPlusPlusOptions {
  readonly stage: ZeroStage;
  /** The mesh axis over which states and the batch are divided. Default: `dp`. */
  readonly axis?: string;
  /**
   * A second mesh axis, whose ranks hold the same parts and have other parts of the batch, such as the axis of
   * `contextParallel`. Default: none.
   */
  readonly replicas?: string;
  /**
   * Stages 1 and 2: the bytes of gradients that are reduced together. Twice as many exist at the same time.
   * Default: 4 MiB.
   */
  readonly bucketBytes?: number;
  /**
   * Stage 3: which parameters are gathered together. Default: those of the units that the model names (Module.division), or
   * of each member of the outermost lists of modules.
   */
  readonly unitOf?: UnitOf;
  /** Stage 3: the number of units that are gathered before they are used. Default: 1. */
  readonly prefetch?: number;
  /**
   * Whether all ranks get rank 0's buffers (batch-norm statistics) before each forward pass that trains, and
   * before the first one of an evaluation, as with ddp. Default: true.
   */
  readonly broadcastBuffers?: boolean;
  /**
   * Whether the losses of ranks may use different parameters. Each backward pass then reduces the gradients of all
   * trained parameters, as zeros where a rank's loss uses none. Momentum and weight decay also change parameters that
   * no rank uses. In stage 3, each rank also gathers the units that it does not run. Default: false. Then ranks
   * must use the same parameters, and those without a gradient stay as they are.
   */
  readonly findUnusedParameters?: boolean;
  /** The dtypes in which values are stored, sent and reduced. Default: everything is f32. */
  readonly mixedPrecision?: MixedPrecision;
}

const optionRules: OptionRules<ZeroOptions> = {
  stage: option.required(option.oneOf(1, 2, 3)),
  axis: option.axisName,
  replicas: option.axisName,
  bucketBytes: option.positive,
  unitOf: option.callback(),
  prefetch: option.count,
  mixedPrecision: option.object(),
  findUnusedParameters: option.flag,
  broadcastBuffers: option.flag,
  ...zeroPlusPlusRules,
};

const GRADIENT_BUCKET_BYTES = 4 * 1024 * 1024;

const shardedAt = {
  1: 'optimizer',
  2: 'gradients',
  3: 'parameters',
} as const satisfies Record<ZeroStage, ShardingOptions['sharded']>;

/**
 * Model states without redundancy (Rajbhandari et al. 2020, "ZeRO"). Each rank updates one part of each parameter: a
 * consecutive range of its elements, as in DeepSpeed. Throws ConfigError for options out of range, and for those of ZeRO++
 * in stages 1 and 2.
 */
export function zero(options: ZeroOptions): Strategy {
  checkOptions('zero', options, optionRules);
  checkMixedPrecision(options.mixedPrecision);
  const { stage, axis = 'dp', replicas, unitOf, prefetch = 1, mixedPrecision } = options;
  const { bucketBytes = GRADIENT_BUCKET_BYTES, broadcastBuffers = true } = options;
  const { findUnusedParameters = false } = options;
  const strategy = `zero-${stage}`;
  if (axis === replicas) throw sameAxes(strategy, axis);
  if (stage !== 3) requireNoZeroPlusPlus(strategy, options);
  const plusPlus = zeroPlusPlusOf(strategy, options);
  return {
    specificationVersion: 1,
    name: strategy,
    plan: (model, axes) => {
      requireWholeHosts(strategy, plusPlus, axis, axes);
      return shardingPlan(model, axes, {
        strategy,
        axis,
        replicas,
        sharded: shardedAt[stage],
        rule: 'flat',
        ...(stage === 3
          ? unitOptions(unitOf ?? unitsOfModel(model) ?? byLayer, plusPlus.copyRanks)
          : bucketOptions(model.parameters, bucketBytes)),
        prefetch,
        mixedPrecision,
        broadcastBuffers,
        findUnusedParameters,
        quantized: plusPlus.quantized,
      });
    },
  };
}

function unitOptions(
  unitOf: UnitOf,
  copyRanks: number | undefined,
): Pick<ShardingOptions, 'unitOf' | 'reshardAfterForward'> {
  return { unitOf, reshardAfterForward: (unit) => unit !== '' && (copyRanks ?? true) };
}

/** Throws ConfigError for an option of ZeRO++ in a stage in which each rank keeps the whole parameters. */
function requireNoZeroPlusPlus(strategy: string, options: ZeroOptions): void {
  const asked = {
    zeroQuantizedWeights: options.zeroQuantizedWeights ?? false,
    zeroQuantizedNontrainableWeights: options.zeroQuantizedNontrainableWeights ?? false,
    zeroQuantizedGradients: options.zeroQuantizedGradients ?? false,
    zeroHpzPartitionSize: (options.zeroHpzPartitionSize ?? 1) !== 1,
  };
  const name = Object.entries(asked).find(([, value]) => value !== false)?.[0];
  if (name === undefined) return;
  throw new ConfigError(
    {
      asked: `${name} in ${strategy}`,
      found: 'ranks that keep whole parameters',
      todo: 'Write stage: 3, or leave the option out',
    },
    { option: name },
  );
}

function bucketOptions(
  parameters: readonly ParameterSpec[],
  limitBytes: number,
): Pick<ShardingOptions, 'unitOf' | 'reshardAfterForward' | 'gradientGroupOf'> {
  const trained = parameters.filter(({ requiresGrad }) => requiresGrad).toReversed();
  const bucketOf = new Map<string, string>();
  assignBuckets(trained, [limitBytes]).forEach(({ indices }, bucket) => {
    for (const index of indices) bucketOf.set(trained[index]?.name ?? '', `bucket ${bucket}`);
  });
  return {
    unitOf: oneUnit,
    reshardAfterForward: () => false,
    gradientGroupOf: (name) => bucketOf.get(name) ?? '',
  };
}
