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
  zeros,
} from '@shardwise/core/extend';
import { PassCount } from '../pass-count.ts';
import { TrainedParameters } from '../trained-parameters.ts';
import { ArrivalOrder } from './arrival-order.ts';
import { assignBuckets, type BucketItem } from './buckets.ts';
import { type CommHook, runHook } from './comm-hook.ts';
import { GradBucket } from './grad-bucket.ts';
import { type UnusedPolicy, UsedParameters } from './used-parameters.ts';

export interface ReducerOptions {
  readonly axis: string;
  /** Parameters that leave together, by name, in the order in which they leave. */
  readonly buckets: readonly (readonly string[])[];
  /**
   * Limits of the first and of the later buckets: where these make the buckets, they make them anew when the
   * order is known in which gradients arrive, and when other parameters train. Null: they stay as they are.
   */
  readonly limitsBytes: readonly number[] | null;
  readonly unused: UnusedPolicy;
  /** How a bucket is averaged. */
  readonly hook: CommHook;
  /** The dtype of gradients; undefined: that of their parameters. */
  readonly gradientDtype: DType | undefined;
}

/** A parameter and what it collects. */
interface Leaf {
  readonly name: string;
  readonly parameter: Tensor;
  readonly gradient: Gradient;
}

/** A backward pass that is under way. */
interface Pass {
  readonly sends: boolean;
  /** The parameters that it has still to come to, and how often: it may come to one in several places. */
  readonly awaited: Map<number, number>;
  /** How many buckets have left. */
  launched: number;
}

/**
 * Averages gradients over an axis while backward is still building graph: a bucket's all-reduce
 * enters the program where its last gradient does, so that it runs while older layers compute.
 * Each pass sends each bucket once, in one order, whatever parameters a rank's loss uses: so ranks stay
 * together with several losses, too. What has been averaged is added up and not averaged again.
 * Buckets are filled in the reverse order of the parameters, after the first pass in the order in
 * which rank 0's gradients arrived.
 */
export class Reducer {
  /** Set to false to let gradients accumulate on this rank (noSync). */
  enabled = true;
  /** What averages are multiplied by, where not all ranks have a batch. Shape: []. */
  scale: Tensor | null = null;
  readonly #options: ReducerOptions;
  readonly #leaves: readonly Leaf[];
  /** Null where buckets stay as they are. */
  readonly #arrivals: ArrivalOrder | null;
  readonly #trained: TrainedParameters;
  readonly #used: UsedParameters;
  /** The order in which buckets are filled. */
  #order: readonly number[];
  #buckets: readonly (readonly number[])[];
  readonly #indices: ReadonlyMap<string, number>;
  readonly #planned: readonly (readonly number[])[];
  /** Null where buckets stay as they were planned. */
  readonly #limitsBytes: readonly number[] | null;
  #pass: Pass | null = null;
  readonly #passes = new PassCount();
  /** The next pass that other ranks have been told of; null where they need not be. */
  #announced: 'none' | 'one' | null = null;

  /** Takes the gradients of all parameters, also of those that do not train now. */
  constructor(
    parameters: readonly (readonly [name: string, parameter: Tensor])[],
    options: ReducerOptions,
  ) {
    const { axis, unused } = options;
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
    this.#trained = new TrainedParameters(named, axis);
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
    // Which gradients arrive may change from pass to pass where some are unused.
    const rebuilds =
      this.#limitsBytes !== null &&
      axisOf(currentSession().mesh, axis).size > 1 &&
      unused !== 'any';
    this.#arrivals = rebuilds ? new ArrivalOrder(named.length, axis) : null;
  }

  /** Parameter names of each bucket, in the order in which the buckets leave. */
  get bucketNames(): readonly (readonly string[])[] {
    return this.#buckets.map((indices) => indices.map((index) => this.#leaves[index]?.name ?? ''));
  }

  /** Leaves gradients to the parameters again. */
  detach(): void {
    for (const { gradient } of this.#leaves) gradient.reduceBy(null);
  }

  /**
   * Ranks without a batch (`join`) take part in one pass for each that is announced: `sends` says whether
   * the forward pass that begins will have one. Throws TensorStateError where the pass before had none.
   */
  announce(sends: boolean): void {
    if (this.#announced === 'one')
      throw unannouncedError('no backward pass before the next forward pass');
    this.#announced = sends ? 'one' : 'none';
  }

  /** Passes need not be announced any more: all ranks have sent and computed the same ones. */
  endAnnouncements(): void {
    this.#announced = null;
    this.#arrivals?.settle();
  }

  /** Takes part in a pass of the other ranks, with gradients of zeros. */
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

  /** The gradient of this rank's batch, with those of earlier passes inside noSync. */
  #localOf(index: number): Tensor {
    const node = this.#leaves[index]?.gradient.local.node ?? null;
    if (node !== null) return new Tensor(node);
    const { shape, dtype } = this.#typeOf(index);
    return zeros(shape, dtype);
  }

  #refillBuckets(): void {
    // Inside join, ranks without a batch do not know of updates.
    const order = this.#announced === null ? this.#arrivals?.take() : undefined;
    this.#order = order ?? this.#order;
    const changed = this.#trained.refresh();
    if (changed || order !== undefined) this.#buckets = this.#fillBuckets();
  }

  #expect(index: number): void {
    if (this.#pass === null) {
      this.#trained.check();
      if (this.enabled) this.#takeAnnounced();
      // Inside join, ranks without a batch do not know of updates.
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
      const averaged = runHook(this.#options.hook, bucket);
      indices.forEach((index, position) => {
        const { [position]: mean } = averaged;
        const gradient = this.#leaves[index]?.gradient;
        if (mean === undefined || gradient === undefined) return;
        if (gradient.local.take() === null) this.#used.sendZeros(index);
        gradient.addReduced((this.scale === null ? mean : mean.mul(this.scale)).node);
      });
    });
  }

  /** What the pass does not come to, as no gradient flows there, is sent as zeros. */
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
