import {
  checkOptions,
  ConfigError,
  option,
  type OptionRules,
  type ParameterSpec,
  replicated,
  type Strategy,
} from '@shardwise/core/extend';
import { allReduceHook } from './all-reduce-hook.ts';
import { broadcastBuffers } from './broadcast-buffers.ts';
import { assignBuckets, BUCKET_BYTES, FIRST_BUCKET_BYTES } from './buckets.ts';
import type { CommHook } from './comm-hook.ts';
import { distribute } from './distribute.ts';
import { reduce, type Reduce } from './reduce.ts';
import {
  checkMixedPrecision,
  type MixedPrecision,
  plannedPrecision,
} from '../mixed-precision/mixed-precision.ts';
import { type BatchAxes, batchAxesOf, requireAxis } from '../plan/axes.ts';
import { type ModelPlan, Step } from '../plan/step.ts';

/** Options of `ddp`. */
export interface DistributedDataParallelOptions {
  /** The mesh axis over which the batch is split. Default: `dp`. */
  readonly axis?: string;
  /**
   * A second mesh axis whose ranks have other parts of the batch, such as the parts of sequences of `contextParallel`.
   * Default: none.
   */
  readonly replicas?: string;
  /**
   * The size of a bucket. The first bucket holds at most 1 MiB, so that communication starts early. Default: 25
   * MiB.
   */
  readonly bucketBytes?: number;
  /**
   * Whether all ranks get rank 0's buffers (batch-norm statistics) before each forward pass that trains, and
   * before the first one of an evaluation. Default: true.
   */
  readonly broadcastBuffers?: boolean;
  /**
   * Whether parameters that no loss of a step uses have a gradient of zeros. Momentum and weight decay then continue to
   * change them. (In PyTorch they stay as they are.) Default: false. Then the update of a parameter without a gradient
   * is an error that names it.
   */
  readonly findUnusedParameters?: boolean;
  /**
   * Whether every step uses the parameters that the first step used; the others count as zero. If a step
   * differs, its update is an error that names the difference. Default: false.
   */
  readonly staticGraph?: boolean;
  /** Must be true if given, because gradients always are views of the message in which they were averaged. */
  readonly gradientAsBucketView?: boolean;
  /** How a bucket is averaged. Default: an all-reduce of the gradients as they are. */
  readonly commHook?: CommHook;
  /**
   * The dtypes in which values are stored and gradients reduced. Each rank updates all parameters in f32. Default:
   * everything is f32.
   */
  readonly mixedPrecision?: MixedPrecision;
  /**
   * Gradients are divided by this factor before the sum over the ranks, and by the number of ranks over this
   * factor after it. Default: 1.
   */
  readonly gradientPredivideFactor?: number;
}

const optionRules: OptionRules<DistributedDataParallelOptions> = {
  axis: option.axisName,
  replicas: option.axisName,
  bucketBytes: option.positive,
  broadcastBuffers: option.flag,
  findUnusedParameters: option.flag,
  staticGraph: option.flag,
  gradientAsBucketView: option.flag,
  commHook: option.callback(),
  gradientPredivideFactor: option.number,
  mixedPrecision: option.object(),
};

/**
 * Every rank holds the whole model and trains on a part of the batch. Gradients are averaged in buckets during the
 * backward pass, as in torch.nn.parallel.DistributedDataParallel. Throws ConfigError for options out of range.
 */
export function ddp(options: DistributedDataParallelOptions = {}): Strategy {
  checkOptions('ddp', options, optionRules);
  checkMixedPrecision(options.mixedPrecision);
  const { axis = 'dp', replicas, bucketBytes: limit = BUCKET_BYTES } = options;
  const over: BatchAxes = replicas === undefined ? { axis } : { axis, replicas };
  const { staticGraph = false, findUnusedParameters = false } = options;
  const hook = hookOf(options);
  const precision = plannedPrecision(options.mixedPrecision);
  const limitsBytes = [Math.min(FIRST_BUCKET_BYTES, limit), limit];
  const common: Omit<Reduce, 'parameters'> = {
    ...over,
    limitsBytes,
    unused: staticGraph ? 'static' : findUnusedParameters ? 'any' : 'all',
    ...(hook === undefined ? {} : { hook }),
  };
  return {
    specificationVersion: 1,
    name: 'ddp',
    plan({ parameters }, axes): ModelPlan {
      for (const each of batchAxesOf(over)) requireAxis('ddp', axes, each);
      const trained = parameters
        .filter(({ requiresGrad }) => requiresGrad)
        .map((each) => ({ ...each, dtype: precision.lowPrecision?.gradientDtype ?? each.dtype }))
        .toReversed();
      const buckets = assignBuckets(trained, limitsBytes).map(({ indices }) =>
        indices.flatMap((index) => trained[index]?.name ?? []),
      );
      return {
        strategy: 'ddp',
        axes,
        batch: { dims: [batchAxesOf(over).toReversed()], partial: [] },
        parameters: parameters.map((each) => ({ ...each, ...wholeStates(each) })),
        steps: [
          new Step(distribute, over),
          ...buckets.map((names) => new Step(reduce, { ...common, parameters: names })),
          ...(options.broadcastBuffers === false
            ? []
            : [new Step(broadcastBuffers, { axes: batchAxesOf(over) })]),
        ],
        ...precision,
      };
    },
  };
}

function wholeStates({
  shape,
}: ParameterSpec): Pick<ModelPlan['parameters'][number], 'parameter' | 'gradient' | 'optimizer'> {
  const whole = replicated(shape);
  return { parameter: whole, gradient: whole, optimizer: whole };
}

/** Returns the hook that the options ask for, or undefined if they ask for none. */
function hookOf(options: DistributedDataParallelOptions): CommHook | undefined {
  const { commHook, gradientPredivideFactor: factor = 1, gradientAsBucketView = true } = options;
  if (!gradientAsBucketView) {
    throw new ConfigError({
      asked: 'gradientAsBucketView: false',
      found: 'gradients that are averaged in the memory of their message',
      todo: 'Leave the option out',
    });
  }
  if (!(factor > 0 && factor < Number.POSITIVE_INFINITY)) {
    throw new ConfigError(
      {
        asked: `gradientPredivideFactor: ${factor}`,
        found: 'a factor that is not positive and finite',
        todo: 'Use a number between 1 and the number of ranks',
      },
      { factor },
    );
  }
  if (commHook !== undefined && factor !== 1) {
    throw new ConfigError(
      {
        asked: `gradientPredivideFactor: ${factor} with a commHook`,
        found: 'a hook that averages in its own way',
        todo: 'Divide in the hook, or leave one of the two out',
      },
      { factor },
    );
  }
  if (commHook !== undefined) return commHook;
  return factor === 1 ? undefined : allReduceHook(factor);
}
