import {
  broadcast,
  currentSession,
  type Model,
  type Module,
  noGrad,
  type ParallelModel,
  type Tensor,
} from '@shardwise/core';
import { requireSameModel } from '../same-model.ts';
import { bucketBytes, firstBucketBytes } from './buckets.ts';
import { Reducer } from './reducer.ts';

export interface DistributedDataParallelOptions {
  /** The mesh axis over which the batch is split. Default: `dp`. */
  readonly axis?: string;
  /** Default: 25 MiB. The first bucket to leave holds at most 1 MiB, so that communication starts early. */
  readonly bucketBytes?: number;
  /** Rank 0's buffers (batch-norm statistics) go to all ranks before each forward. Default: true. */
  readonly broadcastBuffers?: boolean;
  /** Default: false, and a parameter without gradient is an error that names it. */
  readonly findUnusedParameters?: boolean;
}

/**
 * Every rank holds the whole model and a part of the batch; gradients are averaged in buckets while
 * backward goes on. Matches torch.nn.parallel.DistributedDataParallel. Make one with
 * `DistributedDataParallel.create`, which is a collective.
 */
export class DistributedDataParallel<
  M extends Module,
  Inputs extends readonly unknown[],
  Output,
> implements ParallelModel<M, Inputs, Output> {
  readonly module: M & Model<Inputs, Output>;
  readonly #reducer: Reducer;
  readonly #axis: string;
  readonly #broadcastBuffers: boolean;

  private constructor(
    model: M & Model<Inputs, Output>,
    reducer: Reducer,
    axis: string,
    broadcastBuffers: boolean,
  ) {
    this.module = model;
    this.#reducer = reducer;
    this.#axis = axis;
    this.#broadcastBuffers = broadcastBuffers;
  }

  /** Checks that all ranks have the same model and gives them rank 0's parameters and buffers. */
  static async create<M extends Module, Inputs extends readonly unknown[], Output>(
    model: M & Model<Inputs, Output>,
    options: DistributedDataParallelOptions = {},
  ): Promise<DistributedDataParallel<M, Inputs, Output>> {
    const { axis = 'dp', broadcastBuffers = true, findUnusedParameters = false } = options;
    const parameters = [...model.namedParameters()];
    const tensors: (readonly [string, Tensor])[] = [...parameters, ...model.namedBuffers()];
    await requireSameModel(tensors, currentSession().mesh.group(axis));
    await broadcastAll(
      tensors.map(([, t]) => t),
      axis,
    );
    const limit = options.bucketBytes ?? bucketBytes;
    const reducer = new Reducer(parameters, {
      axis,
      bucketLimitsBytes: [Math.min(firstBucketBytes, limit), limit],
      findUnusedParameters,
    });
    return new DistributedDataParallel<M, Inputs, Output>(model, reducer, axis, broadcastBuffers);
  }

  forward(...inputs: Inputs): Output {
    if (this.#broadcastBuffers && this.module.training && this.#reducer.enabled) {
      noGrad(() => {
        for (const [, buffer] of this.module.namedBuffers())
          buffer.assign(broadcast(buffer, this.#axis));
      });
    }
    return this.module.forward(...inputs);
  }

  noSync<T>(body: () => T): T {
    const before = this.#reducer.enabled;
    this.#reducer.enabled = false;
    try {
      return body();
    } finally {
      this.#reducer.enabled = before;
    }
  }

  /** Parameter names of each bucket, in the order in which buckets leave. */
  get buckets(): readonly (readonly string[])[] {
    return this.#reducer.bucketNames;
  }

  /** Ends the averaging: the module is an ordinary one again. */
  detach(): M {
    this.#reducer.detach();
    return this.module;
  }
}

async function broadcastAll(tensors: readonly Tensor[], axis: string): Promise<void> {
  if (tensors.length === 0) return;
  noGrad(() => {
    for (const tensor of tensors) tensor.assign(broadcast(tensor, axis));
  });
  await currentSession().realize([]);
}
