import {
  allReduce,
  noGrad,
  queueAfterBackward,
  TensorStateError,
  type Tensor,
  zeros,
} from '@shardwise/core';
import { assignBuckets } from './buckets.ts';

export interface ReducerOptions {
  readonly axis: string;
  /** Limits of the first and of the later buckets. */
  readonly bucketLimitsBytes: readonly number[];
  /** Parameters that a backward pass does not reach count as zero instead of being an error. */
  readonly findUnusedParameters: boolean;
}

/**
 * Averages gradients over an axis while backward is still building graph: a bucket's all-reduce
 * enters the program where its last gradient does, so that it runs while older layers compute.
 * Buckets are filled in the reverse order of the parameters, which is roughly the order in which
 * gradients arrive, and always leave in the same order, on all ranks.
 */
export class Reducer {
  /** Set to false to let gradients accumulate on this rank (noSync). */
  enabled = true;
  readonly #options: ReducerOptions;
  readonly #names: readonly string[];
  readonly #parameters: readonly Tensor[];
  readonly #buckets: readonly (readonly number[])[];
  readonly #removeHooks: (() => void)[] = [];
  #arrived = new Set<number>();
  #launched = 0;
  #underWay = false;

  constructor(
    parameters: readonly (readonly [name: string, parameter: Tensor])[],
    options: ReducerOptions,
  ) {
    this.#options = options;
    const trained = parameters.filter(([, parameter]) => parameter.requiresGrad).toReversed();
    this.#names = trained.map(([name]) => name);
    this.#parameters = trained.map(([, parameter]) => parameter);
    this.#buckets = assignBuckets(this.#parameters, options.bucketLimitsBytes).map(
      ({ indices }) => indices,
    );
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

  #arrive(index: number): void {
    if (!this.enabled) return;
    if (!this.#underWay) {
      this.#underWay = true;
      queueAfterBackward(() => this.#finish());
    }
    this.#arrived.add(index);
    this.#launchComplete();
  }

  #launchComplete(): void {
    for (;;) {
      const bucket = this.#buckets[this.#launched];
      if (bucket === undefined || !bucket.every((index) => this.#arrived.has(index))) return;
      this.#launch(bucket, this.#launched);
      this.#launched++;
    }
  }

  #launch(bucket: readonly number[], number: number): void {
    const { axis } = this.#options;
    const gradients = bucket.map((index) => {
      const parameter = this.#parameters[index];
      if (parameter === undefined) throw new RangeError(`no parameter ${index}`);
      return { parameter, gradient: parameter.grad ?? zeros(parameter.shape, parameter.dtype) };
    });
    noGrad(() => {
      for (const { parameter, gradient } of gradients) {
        parameter.setGradientNode(
          allReduce(gradient, axis, { reduce: 'avg', bucket: number }).node,
        );
      }
    });
  }

  #finish(): void {
    const missing = this.#names.filter((_, index) => !this.#arrived.has(index));
    if (missing.length > 0 && this.#options.findUnusedParameters) {
      this.#parameters.forEach((_, index) => this.#arrived.add(index));
      this.#launchComplete();
    }
    const left = this.#buckets.length - this.#launched;
    this.#arrived = new Set();
    this.#launched = 0;
    this.#underWay = false;
    if (left > 0) throw unusedError(missing, this.#names.length);
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
