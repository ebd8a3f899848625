import {
  axisOf,
  currentSession,
  type DType,
  type Gradient,
  noGrad,
  queueAfterBackward,
  Tensor,
  TensorStateError,
  type Update,
  withCollectiveName,
  zeros,
} from '@shardwise/core/extend';
import { PassCount } from '../agreement/pass-count.ts';
import { TrainedParameters } from '../agreement/trained-parameters.ts';
import { ArrivalOrder } from './arrival-order.ts';
import { assignBuckets, type BucketItem } from './buckets.ts';
import { type CommHook, runHook } from './comm-hook.ts';
import { GradBucket } from './grad-bucket.ts';
import { type UnusedPolicy, UsedParameters } from './used-parameters.ts';

export interface ReducerOptions {
  readonly axis: string;
  /** What the names of its collectives end with (`ModelNumbers`). */
  readonly model: string;
  /** The names of the parameters whose gradients are sent together, in the order in which the buckets are sent. */
  readonly buckets: readonly (readonly string[])[];
  /**
   * The limits of the first and of the later buckets. With limits, buckets are filled again when the order in which
   * gradients arrive is known, and when other parameters train. Null: buckets stay as they are.
   */
  readonly limitsBytes: readonly number[] | null;
  readonly unused: UnusedPolicy;
  /** How a bucket is averaged. */
  readonly hook: CommHook;
  /** The dtype of gradients. Undefined: that of their parameters. */
  readonly gradientDtype: DType | undefined;
}

/** A parameter and its gradient. */
interface Leaf {
  readonly name: string;
  readonly parameter: Tensor;
  readonly gradient: Gradient;
}

/** A backward pass that is not complete yet. */
interface Pass {
  readonly sends: boolean;
  /**
   * The parameters whose gradients the pass has still to compute, and how many times each. A pass may reach a parameter
   * in several places.
   */
  readonly awaited: Map<number, number>;
  /** The number of buckets that have been sent. */
  launched: number;
}

/**
 * Averages gradients over an axis while the backward pass still builds the graph. A bucket's all-reduce enters the
 * program right after its last gradient, so that it runs while older layers compute. Each pass sends each bucket once,
 * in the same order, whatever parameters a rank's loss uses, so ranks stay together even with several losses. A
 * gradient that has been averaged is added to the sum and not averaged again. Buckets are filled in the reverse order
 * of the parameters, and after the first pass in the order in which rank 0's gradients arrived.
 */
export class Reducer {
  /** Set to false to let gradients accumulate on this rank (noSync). */
  enabled = true;
  /** The factor of averages when not all ranks have a batch. Shape: []. */
  scale: Tensor | null = null;
  readonly #options: ReducerOptions;
  readonly #leaves: readonly Leaf[];
  /** Null if buckets are not filled again. */
  readonly #arrivals: ArrivalOrder | null;
  readonly #trained: TrainedParameters;
  readonly #used: UsedParameters;
  /** The order in which buckets are filled. */
  #order: readonly number[];
  #buckets: readonly (readonly number[])[];
  readonly #bucketTexts = new WeakMap<readonly number[], string>();
  readonly #indices: ReadonlyMap<string, number>;
  readonly #planned: readonly (readonly number[])[];
  /** Null if buckets stay as they were planned. */
  readonly #limitsBytes: readonly number[] | null;
  #pass: Pass | null = null;
  readonly #passes = new PassCount();
  /** Whether the next pass has been announced to the other ranks. Null if passes need not be announced. */
  #announced: 'none' | 'one' | null = null;

  /** Takes over the gradients of all parameters, including those that do not train now. */
  constructor(
    parameters: readonly (readonly [name: string, parameter: Tensor])[],
    options: ReducerOptions,
  ) {
    const { axis, model, unused } = options;
    this.#options = options;
    const named = parameters.toReversed();
    this.#leaves = named.map(([name, parameter], index) => ({
      name,
      parameter,
      gradient: parameter.reduceGradient({
        expect: () => this.#expect(index),
        arrive: () => this.#arrive(index),
        checkUpdate: (update) => this.#checkUpdate(index, update),
      }),
    }));
    this.#trained = new TrainedParameters(named, axis, model);
    this.#used = new UsedParameters(
      this.#leaves.map(({ name, parameter, gradient }) => ({
        name,
        leaf: parameter,
        isTrained: () => parameter.requiresGrad,
        gradient,
      })),
      unused,
    );
    this.#order = named.map((_, index) => index);
    this.#indices = new Map(named.map(([name], index) => [name, index]));
    this.#planned = options.buckets.map((names) =>
      names.flatMap((name) => this.#indices.get(name) ?? []),
    );
    const filled = options.limitsBytes === null ? null : this.#fillByLimits(options.limitsBytes);
    const isEdited = JSON.stringify(filled) !== JSON.stringify(this.#planned);
    this.#limitsBytes = isEdited ? null : options.limitsBytes;
    this.#buckets = this.#fillBuckets();
    // If some parameters may be unused, the gradients that arrive may differ from pass to pass.
    const rebuilds =
      this.#limitsBytes !== null &&
      axisOf(currentSession().mesh, axis).size > 1 &&
      unused !== 'any';
    this.#arrivals = rebuilds ? new ArrivalOrder(named.length, axis, model) : null;
  }

  /** The parameter names of each bucket, in the order in which the buckets are sent. */
  get bucketNames(): readonly (readonly string[])[] {
    return this.#buckets.map((indices) => indices.map((index) => this.#leaves[index]?.name ?? ''));
  }

  /** Gives the gradients back to the parameters. */
  detach(): void {
    for (const { gradient } of this.#leaves) gradient.reduceBy(null);
  }

  /**
   * Announces a pass inside `join`. Ranks without a batch take part in one pass for each announced one. `sends` is
   * whether the forward pass that begins will have a backward pass that sends gradients. Throws TensorStateError if the
   * pass that was announced before had none.
   */
  announce(sends: boolean): void {
    if (this.#announced === 'one')
      throw unannouncedError('no backward pass before the next forward pass');
    this.#announced = sends ? 'one' : 'none';
  }

  /** Passes need not be announced any more, because all ranks have sent and computed the same ones. */
  endAnnouncements(): void {
    this.#announced = null;
    this.#arrivals?.settle();
  }

  /** Takes part in a pass of the other ranks with gradients of zeros. */
  shadow(): void {
    this.#passes.reset();
    for (const { gradient } of this.#leaves) gradient.clear();
    this.#used.beginPassOfOthers();
    this.#buckets.forEach((bucket, index) => this.#launch(bucket, index));
    this.#arrivals?.share();
  }

  #fillBuckets(): readonly (readonly number[])[] {
    if (this.#limitsBytes !== null) return this.#fillByLimits(this.#limitsBytes);
    const isTrained = (index: number): boolean => this.#trained.flags[index] === true;
    const named = new Set(this.#planned.flat());
    const others = this.#order.filter((index) => !named.has(index));
    return [...this.#planned, others]
      .map((indices) => indices.filter(isTrained))
      .filter((indices) => indices.length > 0);
  }

  #fillByLimits(limitsBytes: readonly number[]): readonly (readonly number[])[] {
    const order = this.#order.filter((index) => this.#trained.flags[index]);
    const items = order.map((index) => this.#typeOf(index));
    return assignBuckets(items, limitsBytes).map(({ indices }) =>
      indices.flatMap((position) => order[position] ?? []),
    );
  }

  #typeOf(index: number): BucketItem {
    const { shape = [], dtype = 'f32' } = this.#leaves[index]?.parameter ?? {};
    return { shape, dtype: this.#options.gradientDtype ?? dtype };
  }

  /**
   * The sum of this rank's gradients that have not been averaged: the one of this pass and those of earlier passes
   * inside noSync.
   */
  #localOf(index: number): Tensor {
    const node = this.#leaves[index]?.gradient.local.node ?? null;
    if (node !== null) return new Tensor(node);
    const { shape, dtype } = this.#typeOf(index);
    return zeros(shape, dtype);
  }

  #refillBuckets(): void {
    // Inside join, ranks without a batch do not know when updates happen.
    const order = this.#announced === null ? this.#arrivals?.take() : undefined;
    this.#order = order ?? this.#order;
    const changed = this.#trained.refresh();
    if (changed || order !== undefined) this.#buckets = this.#fillBuckets();
  }

  #expect(index: number): void {
    if (this.#pass === null) {
      this.#trained.check();
      if (this.enabled) this.#takeAnnounced();
      // Inside join, ranks without a batch do not know when updates happen.
      if (this.#announced !== null) this.#passes.reset();
      else if (this.enabled) this.#passes.next();
      this.#pass = { sends: this.enabled, awaited: new Map(), launched: 0 };
      queueAfterBackward((completed) => this.#finish(completed));
      this.#used.beginPass();
      if (this.enabled) this.#refillBuckets();
    }
    const { awaited } = this.#pass;
    awaited.set(index, (awaited.get(index) ?? 0) + 1);
  }

  #arrive(index: number): void {
    this.#used.arrive(index);
    const pass = this.#pass;
    if (pass === null || !pass.sends) return;
    this.#arrivals?.arrive(index);
    const left = (pass.awaited.get(index) ?? 1) - 1;
    if (left > 0) pass.awaited.set(index, left);
    else pass.awaited.delete(index);
    this.#launchComplete(pass);
  }

  #launchComplete(pass: Pass): void {
    for (;;) {
      const bucket = this.#buckets[pass.launched];
      if (bucket === undefined || bucket.some((index) => pass.awaited.has(index))) return;
      this.#launch(bucket, pass.launched);
      pass.launched++;
    }
  }

  #launch(indices: readonly number[], number: number): void {
    const leaves = indices.flatMap((index) => this.#leaves[index] ?? []);
    noGrad(() => {
      const bucket = new GradBucket({
        index: number,
        isLast: number === this.#buckets.length - 1,
        axis: this.#options.axis,
        pass: this.#passes.current,
        names: leaves.map(({ name }) => name),
        parameters: leaves.map(({ parameter }) => parameter),
        gradients: indices.map((index) => this.#localOf(index)),
      });
      const averaged = withCollectiveName(this.#nameOf(indices, number), () =>
        runHook(this.#options.hook, bucket),
      );
      indices.forEach((index, position) => {
        const { [position]: mean } = averaged;
        const gradient = this.#leaves[index]?.gradient;
        if (mean === undefined || gradient === undefined) return;
        if (gradient.local.take() === null) this.#used.sendZeros(index);
        gradient.addReduced((this.scale === null ? mean : mean.mul(this.scale)).node);
      });
    });
  }

  /** The name of the collective of a bucket. It is kept, because building and hashing it takes time in each pass. */
  #nameOf(indices: readonly number[], number: number): string {
    const known = this.#bucketTexts.get(indices);
    if (known !== undefined) return known;
    const names = indices.map((index) => this.#leaves[index]?.name ?? '').join(', ');
    const text = `the gradients of bucket ${number}${this.#options.model}: ${names}`;
    this.#bucketTexts.set(indices, text);
    return text;
  }

  /** Ends a pass. Gradients that the pass has not reached are sent as zeros. */
  #finish(completed: boolean): void {
    const pass = this.#pass;
    this.#pass = null;
    if (pass === null || !pass.sends || !completed) return;
    pass.awaited.clear();
    this.#launchComplete(pass);
    this.#arrivals?.share();
  }

  #takeAnnounced(): void {
    if (this.#announced === 'none') throw unannouncedError('a second backward pass');
    if (this.#announced !== null) this.#announced = 'none';
  }

  #checkUpdate(index: number, update: Update): void {
    this.#trained.check();
    this.#arrivals?.settle();
    this.#passes.reset();
    if (update.takesLocalGradients) return;
    if (this.#leaves[index]?.gradient.local.isEmpty === false) throw this.#localError(update);
    this.#used.check(index, update);
  }

  #localError({ leaves }: Update): TensorStateError {
    const updated = this.#leaves.filter(({ parameter }) => leaves.has(parameter));
    const local = updated.flatMap(({ name, gradient }) => (gradient.local.isEmpty ? [] : [name]));
    return new TensorStateError(
      {
        asked: 'to update parameters by the means of their gradients over ranks',
        found: `${local.length} of ${updated.length} parameters have gradients of this rank alone, because no backward pass outside of noSync has averaged them: ${local.join(', ')}`,
        todo: 'Call the last backward() of a step outside of noSync, before parameters of it are frozen',
      },
      { parameters: local },
    );
  }
}

function unannouncedError(found: string): TensorStateError {
  return new TensorStateError({
    asked: 'one backward pass for each forward pass inside join',
    found: `${found}, but ranks without a batch take part in exactly one`,
    todo: 'Add up the losses of a forward pass and call backward() once; evaluate inside noGrad',
  });
}
