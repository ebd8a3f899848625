import {
  axisOf,
  broadcast,
  checkOptions,
  ConfigError,
  currentSession,
  isGradEnabled,
  type Model,
  type Module,
  noGrad,
  option,
  type OptionRules,
  type ParallelModel,
  type Plan,
  type Strategy,
  synchronously,
  type Tensor,
} from '@shardwise/core/extend';
import { BufferSharing } from '../buffer-sharing.ts';
import { markAveraged, requireUnaveraged } from '../averaged-parameters.ts';
import { KnownParameters } from '../known-parameters.ts';
import { checkMixedPrecision } from '../mixed-precision/check-mixed-precision.ts';
import { lowerPrecision } from '../mixed-precision/lower-precision.ts';
import { gradientDtypeOf, type MixedPrecision } from '../mixed-precision/mixed-precision.ts';
import { requireSameModel } from '../same-model.ts';
import { requireWhole } from '../whole-parameters.ts';
import { allReduceHook } from './all-reduce-hook.ts';
import { bucketBytes, firstBucketBytes } from './buckets.ts';
import type { CommHook } from './comm-hook.ts';
import type { Joinable, JoinContext, JoinHook } from './join.ts';
import { Reducer } from './reducer.ts';

export interface DistributedDataParallelOptions {
  /** The mesh axis over which the batch is split. Default: `dp`. */
  readonly axis?: string;
  /** Default: 25 MiB. The first bucket to leave holds at most 1 MiB, so that communication starts early. */
  readonly bucketBytes?: number;
  /**
   * Rank 0's buffers (batch-norm statistics) go to all ranks before each forward pass that trains, and
   * before the first one of an evaluation. Default: true.
   */
  readonly broadcastBuffers?: boolean;
  /**
   * Parameters that no loss of a step uses count as zero. Default: false, and an update of a parameter
   * without gradient is an error that names it.
   */
  readonly findUnusedParameters?: boolean;
  /**
   * Every step uses the parameters that the first one used; others count as zero. The update of a step
   * that differs is an error that names what differs. Default: false.
   */
  readonly staticGraph?: boolean;
  /** Gradients always are views of the message that they were averaged in; false is refused. */
  readonly gradientAsBucketView?: boolean;
  /** How a bucket is averaged. Default: an all-reduce of the gradients as they are. */
  readonly commHook?: CommHook;
  /** What is stored and reduced in fewer bits; each rank updates all parameters in f32. Default: everything is f32. */
  readonly mixedPrecision?: MixedPrecision;
  /** Gradients are divided by this before the sum over the ranks, and by ranks / this after it. Default: 1. */
  readonly gradientPredivideFactor?: number;
}

/** ddp, which gives a DistributedDataParallel. */
export interface DistributedDataParallelStrategy extends Strategy<Module> {
  apply<M extends Module, Inputs extends readonly unknown[], Output>(
    plan: Plan,
    model: M & Model<Inputs, Output>,
  ): Promise<DistributedDataParallel<M, Inputs, Output>>;
}

export const ddpOptionRules: OptionRules<DistributedDataParallelOptions> = {
  axis: option.axisName,
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
 * Every rank holds the whole model and a part of the batch; gradients are averaged in buckets while
 * backward goes on. Matches torch.nn.parallel.DistributedDataParallel. Make one with
 * `DistributedDataParallel.create`, which is a collective.
 */
export class DistributedDataParallel<M extends Module, Inputs extends readonly unknown[], Output>
  implements ParallelModel<M, Inputs, Output>, Joinable
{
  readonly module: M & Model<Inputs, Output>;
  readonly #reducer: Reducer;
  readonly #known: KnownParameters;
  readonly #axis: string;
  /** Null where each rank keeps its own buffers. */
  readonly #bufferSharing: BufferSharing | null;
  readonly #unmark: () => void;
  #join: JoinContext | null = null;

  private constructor(
    model: M & Model<Inputs, Output>,
    reducer: Reducer,
    axis: string,
    broadcastBuffers: boolean,
  ) {
    this.module = model;
    this.#reducer = reducer;
    this.#known = new KnownParameters('ddp', model);
    this.#axis = axis;
    this.#bufferSharing = broadcastBuffers ? new BufferSharing(model) : null;
    this.#unmark = markAveraged('ddp', model.parameters());
  }

  /**
   * Checks that all ranks have the same model and gives them rank 0's parameters and buffers. Throws
   * ConfigError for options out of range, and a model that a strategy was applied to.
   */
  static async create<M extends Module, Inputs extends readonly unknown[], Output>(
    model: M & Model<Inputs, Output>,
    options: DistributedDataParallelOptions = {},
  ): Promise<DistributedDataParallel<M, Inputs, Output>> {
    checkOptions('ddp', options, ddpOptionRules);
    const { axis = 'dp', broadcastBuffers = true, findUnusedParameters = false } = options;
    const { staticGraph = false, mixedPrecision } = options;
    checkMixedPrecision(mixedPrecision);
    const hook = hookOf(options);
    const parameters = [...model.namedParameters()];
    requireUnaveraged('ddp of a model', parameters);
    requireWhole('ddp of a model', parameters);
    const tensors: (readonly [string, Tensor])[] = [...parameters, ...model.namedBuffers()];
    await requireSameModel(tensors, currentSession().mesh.group(axis));
    await broadcastAll(
      tensors.map(([, { part }]) => part),
      axis,
    );
    if (mixedPrecision !== undefined) await lowerPrecision(model, mixedPrecision);
    const limit = options.bucketBytes ?? bucketBytes;
    const parts = model.namedParameters().map(([name, { part }]) => [name, part] as const);
    const reducer = new Reducer(parts, {
      axis,
      bucketLimitsBytes: [Math.min(firstBucketBytes, limit), limit],
      findUnusedParameters,
      staticGraph,
      hook,
      gradientDtype: gradientDtypeOf(mixedPrecision),
    });
    return new DistributedDataParallel<M, Inputs, Output>(model, reducer, axis, broadcastBuffers);
  }

  /** Throws ConfigError for a model that parameters were put into since. */
  forward(...inputs: Inputs): Output {
    this.#known.check();
    const { enabled } = this.#reducer;
    const buffers = this.#bufferSharing?.begin({ synchronizes: enabled }) ?? false;
    const gradients = enabled && isGradEnabled();
    const join = this.#join;
    noGrad(() => {
      if (join !== null) {
        this.#reducer.announce(gradients);
        join.notify(this, { gradients, buffers });
        this.#scaleFor(join);
      }
      if (!buffers) return;
      this.#bufferSharing?.share(
        join === null
          ? (message) => broadcast(message, this.#axis)
          : (message) => join.fromFirstActive(message),
      );
    });
    return this.module.forward(...inputs);
  }

  /** See `join`. A rank without a batch gets the gradients that the others average, too. */
  joinHook(context: JoinContext): JoinHook {
    this.#join = context;
    return {
      shadow: async ({ gradients, buffers }) => {
        noGrad(() => {
          if (buffers) this.#bufferSharing?.share((message) => context.fromOthers(message));
          this.#scaleFor(context);
          if (gradients) this.#reducer.shadow();
        });
        await currentSession().realize([]);
      },
      finish: (root) => {
        const buffers = this.module.namedBuffers().map(([, buffer]) => buffer);
        this.#bufferSharing?.settle();
        const parts = this.module.parameters().map(({ part }) => part);
        return broadcastAll([...parts, ...buffers], this.#axis, root);
      },
      leave: () => {
        this.#join = null;
        this.#reducer.scale = null;
        this.#reducer.endAnnouncements();
      },
    };
  }

  noSync<T>(body: () => T): T {
    const before = this.#reducer.enabled;
    this.#reducer.enabled = false;
    try {
      return synchronously('noSync', body);
    } finally {
      this.#reducer.enabled = before;
    }
  }

  /** Parameter names of each bucket, in the order in which buckets leave. */
  get buckets(): readonly (readonly string[])[] {
    return this.#reducer.bucketNames;
  }

  /** Ends the averaging: the module is an ordinary one again, but for mixed precision, in which it stays. */
  detach(): M {
    this.#reducer.detach();
    this.#unmark();
    return this.module;
  }

  #scaleFor(join: JoinContext): void {
    const { size } = axisOf(currentSession().mesh, this.#axis);
    this.#reducer.scale = join.divideByInitialWorldSize ? null : join.activeRanks.pow(-1).mul(size);
  }
}

async function broadcastAll(tensors: readonly Tensor[], axis: string, root = 0): Promise<void> {
  if (tensors.length === 0) return;
  noGrad(() => {
    for (const tensor of tensors) tensor.assign(broadcast(tensor, axis, root));
  });
  await currentSession().realize([]);
}

function hookOf(options: DistributedDataParallelOptions): CommHook {
  const { commHook, gradientPredivideFactor: factor = 1, gradientAsBucketView = true } = options;
  if (!gradientAsBucketView) {
    throw new ConfigError({
      asked: 'gradientAsBucketView: false',
      found:
        'gradients that are computed and averaged in the memory of their message, without copies',
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
  return commHook ?? allReduceHook(factor);
}
