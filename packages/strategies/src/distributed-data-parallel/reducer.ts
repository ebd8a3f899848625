import {
  axisOf,
  currentSession,
  noGrad,
  queueAfterBackward,
  TensorStateError,
  type Tensor,
  zeros,
} from '@shardwise/core';
import { ArrivalOrder } from './arrival-order.ts';
import { assignBuckets } from './buckets.ts';
import { type CommHook, runHook } from './comm-hook.ts';
import { GradBucket } from './grad-bucket.ts';
import { UsedSet } from './used-set.ts';

export interface ReducerOptions {
  readonly axis: string;
  /** Limits of the first and of the later buckets. */
  readonly bucketLimitsBytes: readonly number[];
  /** Parameters that a backward pass does not reach count as zero instead of being an error. */
  readonly findUnusedParameters: boolean;
  /** All passes use the parameters that the first one used; the others count as zero. */
  readonly staticGraph: boolean;
  /** How a bucket is averaged. */
  readonly hook: CommHook;
}

/**
 * Averages gradients over an axis while backward is still building graph: a bucket's all-reduce
 * enters the program where its last gradient does, so that it runs while older layers compute.
 * Buckets are filled in the reverse order of the parameters, after the first pass in the order in
 * which rank 0's gradients arrived, and always leave in one order on all ranks.
 */
export class Reducer {
  /** Set to false to let gradients accumulate on this rank (noSync). */
  enabled = true;
  /** What averages are multiplied by, where not all ranks have a batch. Shape: []. */
  scale: Tensor | null = null;
  readonly #options: ReducerOptions;
  readonly #names: readonly string[];
  readonly #parameters: readonly Tensor[];
  readonly #removeHooks: (() => void)[] = [];
  /** Null where buckets stay as they are. */
  readonly #order: ArrivalOrder | null;
  readonly #used: UsedSet | null;
  #buckets: readonly (readonly number[])[];
  #arrived = new Set<number>();
  #launched = 0;
  #underWay = false;

  constructor(
    parameters: readonly (readonly [name: string, parameter: Tensor])[],
    options: ReducerOptions,
  ) {
    const { axis, findUnusedParameters, staticGraph } = options;
    this.#options = options;
    const trained = parameters.filter(([, parameter]) => parameter.requiresGrad).toReversed();
    this.#names = trained.map(([name]) => name);
    this.#parameters = trained.map(([, parameter]) => parameter);
    this.#buckets = this.#bucketsOf(this.#parameters.map((_, index) => index));
    // Which gradients arrive may change from pass to pass where some are unused.
    const rebuilds =
      axisOf(currentSession().mesh, axis).size > 1 && (staticGraph || !findUnusedParameters);
    this.#order = rebuilds ? new ArrivalOrder(trained.length, axis) : null;
    this.#used = staticGraph ? new UsedSet(this.#names) : null;
    this.#parameters.forEach((parameter, index) => {
      this.#removeHooks.push(parameter.registerPostAccumulateGradHook(() => this.#arrive(index)));
    });
  }

  /** Parameter names of each bucket, in the order in which the buckets leave. */
  get bucketNames(): readonly (readonly string[])[] {
    return this.#buckets.map((indices) => indices.map((index) => this.#names[index] ?? ''));
  }

  /** Takes the hooks off the parameters. */
  detach(): void {
    for (const remove of this.#removeHooks.splice(0)) remove();
  }

  /** Takes part in a pass of the other ranks, with gradients of zeros. */
  shadow(): void {
    for (const parameter of this.#parameters) parameter.zeroGrad();
    this.#rebuild();
    this.#launchAll();
    this.#end();
  }

  #bucketsOf(order: readonly number[]): readonly (readonly number[])[] {
    const parameters = order.flatMap((index) => this.#parameters[index] ?? []);
    return assignBuckets(parameters, this.#options.bucketLimitsBytes).map(({ indices }) =>
      indices.flatMap((position) => order[position] ?? []),
    );
  }

  #rebuild(): void {
    const order = this.#order?.take();
    if (order !== undefined) this.#buckets = this.#bucketsOf(order);
  }

  #arrive(index: number): void {
    if (!this.enabled) return;
    if (!this.#underWay) {
      this.#underWay = true;
      this.#rebuild();
      queueAfterBackward((completed) => (completed ? this.#finish() : this.#end()));
    }
    this.#order?.arrive(index);
    this.#arrived.add(index);
    try {
      this.#launchComplete();
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  #launchComplete(): void {
    for (;;) {
      const bucket = this.#buckets[this.#launched];
      if (bucket === undefined || !bucket.every((index) => this.#isComplete(index))) return;
      this.#launch(bucket, this.#launched);
      this.#launched++;
    }
  }

  #isComplete(index: number): boolean {
    return this.#arrived.has(index) || (this.#used?.isUnused(index) ?? false);
  }

  #launch(indices: readonly number[], number: number): void {
    const parameters = indices.flatMap((index) => this.#parameters[index] ?? []);
    noGrad(() => {
      const bucket = new GradBucket({
        index: number,
        isLast: number === this.#buckets.length - 1,
        axis: this.#options.axis,
        names: indices.flatMap((index) => this.#names[index] ?? []),
        parameters,
        gradients: parameters.map(({ grad, shape, dtype }) => grad ?? zeros(shape, dtype)),
      });
      const averaged = runHook(this.#options.hook, bucket);
      const { scale } = this;
      const scaled = scale === null ? averaged : averaged.map((each) => each.mul(scale));
      parameters.forEach((parameter, position) => {
        const gradient = scaled[position];
        if (gradient !== undefined) parameter.setGradientNode(gradient.node);
      });
    });
  }

  #launchAll(): void {
    this.#parameters.forEach((_, index) => this.#arrived.add(index));
    this.#launchComplete();
  }

  #finish(): void {
    const { findUnusedParameters, staticGraph } = this.#options;
    const arrived = new Set(this.#arrived);
    const missing = this.#names.filter((_, index) => !arrived.has(index));
    try {
      this.#used?.finish(arrived);
      if (missing.length > 0 && (findUnusedParameters || staticGraph)) this.#launchAll();
      if (this.#launched < this.#buckets.length) throw unusedError(missing, this.#names.length);
    } finally {
      this.#end();
    }
  }

  #end(): void {
    if (this.#launched === this.#buckets.length) this.#order?.share();
    this.#arrived = new Set();
    this.#launched = 0;
    this.#underWay = false;
  }
}

function unusedError(missing: readonly string[], total: number): TensorStateError {
  return new TensorStateError(
    {
      asked: 'to average the gradients of this backward pass over ranks',
      found: `${missing.length} of ${total} parameters got no gradient: ${missing.join(', ')}`,
      todo: 'Use every parameter in the loss, freeze unused ones with requiresGrad_(false), or pass findUnusedParameters: true',
    },
    { missing },
  );
}
