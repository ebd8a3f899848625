import {
  checkOptions,
  clipFactor,
  type Compute,
  ConfigError,
  currentSession,
  fromData,
  type HostArrays,
  LossScaler,
  noGrad,
  normOfSquares,
  noteSettings,
  type Optimizer,
  type OptimizerSettings,
  type OptimizerStateDict,
  option,
  type OptionRules,
  ownPlace,
  ownSquares,
  type OwnSum,
  type OwnSums,
  ReversibleUpdate,
  type SavedState,
  scaleGradients,
  takingWork,
  type Tensor,
  TensorStateError,
  withoutValues,
} from '@shardwise/core/extend';
import { WrappedOptimizer } from './wrapped-optimizer.ts';
import { bytesOf } from '../pipeline/messages/message-bytes.ts';

/** Options of `OptimisticOptimizer`. */
export interface OptimisticOptimizerOptions {
  /** Gradients are clipped to this 2-norm, as by `clipGradNorm`. Default: they are not clipped. */
  readonly maxNorm?: number;
  /** Whether a step whose gradients are not all finite changes nothing. Default: false. */
  readonly skipNonFinite?: boolean;
  /**
   * Scales losses. Gradients are divided by the scale before they are clipped. A step whose gradients are not
   * all finite changes only the scale. The optimizer calls the scaler's step() and update(). Default: losses
   * are not scaled.
   */
  readonly scaler?: LossScaler;
}

const optionRules: OptionRules<OptimisticOptimizerOptions> = {
  maxNorm: option.nonNegative,
  skipNonFinite: option.flag,
  scaler: option.instanceOf(LossScaler),
};

/** The outcome of a step. */
export interface Verdict {
  /** The norm of all gradients before they were clipped. */
  readonly norm: number;
  /** False if the step was undone because gradients were not finite. */
  readonly taken: boolean;
}

/**
 * An optimizer whose steps do not wait for the other ranks (Qi et al. 2023, "Zero Bubble Pipeline Parallelism",
 * post-validation). Clipping needs the norm of all gradients, which is a barrier that would bring back the
 * bubble of a pipeline. So each rank makes the update as if nothing were to be clipped or skipped, and begins
 * the next pass. If the norm, when it is known, says otherwise, the update is undone and made again correctly,
 * and the results of the next pass are computed again. The bits are those of clipGradNorm and step(). Use it in
 * their place:
 *
 *     const optimizer = new OptimisticOptimizer(new optim.AdamW(model.module.parameters()), { maxNorm: 1 });
 *     model.forward(x, y).backward();
 *     await optimizer.step();
 *
 * Losses may be scaled with `{ scaler }` and `scaler.scale(loss).backward()`. Then call step() of this
 * optimizer instead of step() and update() of the scaler. The scale of the next loss is read when the verdict
 * is known; the first backward waits for it.
 *
 * Until then, the former parameters and states are kept beside the new ones, and so are the gradients;
 * `explain` says how much this is. Code that reads tensors waits for the norm first.
 */
export class OptimisticOptimizer<Wrapped extends Optimizer> extends WrappedOptimizer<Wrapped> {
  readonly #options: OptimisticOptimizerOptions;
  #latest: Promise<Verdict> | null = null;
  #isOpen = false;
  #keptBytes = 0;

  /**
   * Throws ConfigError for options out of range, and if no option is given, because then there is nothing to
   * wait for.
   */
  constructor(optimizer: Wrapped, options: OptimisticOptimizerOptions = {}) {
    super('OptimisticOptimizer', optimizer);
    checkOptions('OptimisticOptimizer', options, optionRules);
    const { maxNorm, skipNonFinite = false, scaler } = options;
    if (maxNorm === undefined && !skipNonFinite && scaler === undefined) {
      throw new ConfigError({
        asked: 'an OptimisticOptimizer',
        found:
          'no verdict that its steps would wait for: neither maxNorm nor skipNonFinite nor a scaler',
        todo: 'Give one of them, or use the optimizer itself, whose steps do not wait for a verdict',
      });
    }
    this.#options = options;
  }

  /** Throws TensorStateError while the latest step may still be undone. */
  override savedState(parameter: Tensor): SavedState | undefined {
    this.#requireVerdict();
    return super.savedState(parameter);
  }

  /** Throws the errors of savedState, and CheckpointError as Optimizer does. */
  override restore(saved: ReadonlyMap<Tensor, HostArrays>, settings: readonly object[]): void {
    this.#requireVerdict();
    super.restore(saved, settings);
  }

  /** Throws the errors of restore. */
  override loadStateDict(dict: OptimizerStateDict<OptimizerSettings>): void {
    this.#requireVerdict();
    super.loadStateDict(dict);
  }

  /**
   * Updates as if the verdict were good. Throws the errors of step() of the optimizer. It is a collective over
   * all axes of the mesh.
   */
  async step(): Promise<void> {
    const session = currentSession();
    const parameters = this.paramGroups.flatMap(({ params }) => [...params]);
    // Gradients are reduced now. Later, that would also compute what the verdict may change.
    await session.realize(parameters.flatMap(({ part }) => part.gradientNode ?? []));
    await prepareGroups();
    const { maxNorm, scaler } = this.#options;
    scaler?.unscaleGradients(parameters);
    if (maxNorm !== undefined) {
      const parts = parameters.map(({ part }) => part);
      noteSettings({ call: 'OptimisticOptimizer.step()', groups: [{ maxNorm }] }, parts, ownPlace);
    }
    const sums = ownSquares(parameters);
    const factor = fromData(Float32Array.of(1), [], 'f32');
    if (maxNorm !== undefined) scaleGradients(parameters, factor);
    const { result: rollBackStepCounts, work } = takingWork(() => this.optimizer.buildStep());
    const update = new ReversibleUpdate(work);
    const verdict = Promise.withResolvers<Verdict>();
    const done = Promise.withResolvers<void>();
    // A failure is reported to those who call verdict(). Without such a call it must not be an unhandled rejection.
    verdict.promise.catch(() => {});
    const step = async (compute: Compute): Promise<void> => {
      const own = sums.flatMap((each) => each.sums.map(({ own: { node } }) => node));
      await compute(own.filter(({ value }) => value === null));
      const added = addUp(sums);
      added.catch(() => {});
      await update.make(compute);
      this.#keptBytes = update.keptBytes;
      this.#isOpen = true;
      scaler?.postpone();
      session.defer(async (later) => {
        try {
          const { found, isChanged } = await this.#settle(await added, update, factor, later);
          if (!found.taken) rollBackStepCounts();
          scaler?.settle(!found.taken);
          this.#isOpen = false;
          verdict.resolve(found);
          return isChanged;
        } catch (error) {
          verdict.reject(error);
          throw error;
        }
      });
    };
    session.enqueue((compute) => step(compute).then(done.resolve, done.reject));
    await done.promise;
    this.#latest = verdict.promise;
  }

  #requireVerdict(): void {
    if (!this.#isOpen) return;
    throw new TensorStateError({
      asked: 'to save or load the states of an OptimisticOptimizer',
      found: 'a step that may still be taken back',
      todo: 'Call `await optimizer.verdict()` before',
    });
  }

  /** Waits for the verdict on the latest step. Throws TensorStateError before the first step. */
  async verdict(): Promise<Verdict> {
    const latest = this.#latest;
    if (latest === null) {
      throw new TensorStateError({
        asked: 'the verdict of an OptimisticOptimizer',
        found: 'no step yet',
        todo: 'Call it after `await optimizer.step()`',
      });
    }
    // The next work on the session first runs what was deferred, so empty work is enough to bring the verdict.
    currentSession().enqueue(async () => {});
    return latest;
  }

  /**
   * Says how many bytes this rank keeps between the latest step and its verdict, in addition to parameters, gradients
   * and states.
   */
  explain(): string {
    return `steps ahead of the verdict: former parameters and states, and gradients, are kept until it is there: ${this.#keptBytes} bytes`;
  }

  /** Undoes the update, or makes it again with clipped gradients, once the sums of all ranks say so. */
  async #settle(
    squares: readonly number[],
    update: ReversibleUpdate,
    factor: Tensor,
    compute: Compute,
  ): Promise<{ readonly found: Verdict; readonly isChanged: boolean }> {
    const { maxNorm, scaler, skipNonFinite = scaler !== undefined } = this.#options;
    const [norm, scale] = noGrad(() =>
      withoutValues(() => {
        const all = normOfSquares(
          squares.map((square) => fromData(Float32Array.of(square), [], 'f32')),
        );
        return [all, clipFactor(all, maxNorm ?? 0)];
      }),
    );
    await compute([norm.node, scale.node]);
    const [value = 0] = new Float32Array((await bytesOf(norm.node)).buffer);
    const bytes = await bytesOf(scale.node);
    const isSkipped = skipNonFinite && !Number.isFinite(value);
    const isClipped = maxNorm !== undefined && new Float32Array(bytes.buffer)[0] !== 1;
    if (isSkipped || isClipped) update.back();
    if (!isSkipped && isClipped) {
      factor.node.value = { kind: 'host', bytes };
      await update.makeAgain(compute);
    }
    update.keep();
    return { found: { norm: value, taken: !isSkipped }, isChanged: isSkipped || isClipped };
  }
}

/** Makes a communicator of its own for each axis, because a verdict travels beside the messages of the next pass. */
async function prepareGroups(): Promise<void> {
  const session = currentSession();
  for (const { name } of session.mesh.axes) {
    await session.extendMesh(
      verdictsOf(name),
      name,
      async (group) => (await group.split(0, group.rank)) ?? group,
    );
  }
}

function verdictsOf(axis: string): string {
  return `${axis} verdicts`;
}

/** Sums up over the ranks. Shapes: each [] -> one number for each of `all`. */
async function addUp(all: readonly OwnSums[]): Promise<number[]> {
  const own = new Map<OwnSum, Uint8Array<ArrayBuffer>>();
  for (const sum of all.flatMap(({ sums }) => sums)) {
    own.set(sum, (await bytesOf(sum.own.node)).slice());
  }
  const found: number[] = [];
  for (const { sums, over } of all) {
    const parts: number[] = [];
    for (const sum of sums) parts.push(await sumOver(sum.axes, own.get(sum) ?? new Uint8Array(4)));
    const together = Float32Array.of(parts.reduce((sum, part) => sum + part, 0));
    found.push(await sumOver(over === undefined ? [] : [over], new Uint8Array(together.buffer)));
  }
  return found;
}

/** Adds a number up over the ranks of some axes, in place. Shape: the bytes of one f32 -> its sum. */
async function sumOver(axes: readonly string[], bytes: Uint8Array<ArrayBuffer>): Promise<number> {
  const { mesh } = currentSession();
  for (const axis of axes) {
    await mesh.group(verdictsOf(axis)).allReduce({ bytes, dtype: 'f32' }, 'sum');
  }
  return new Float32Array(bytes.buffer)[0] ?? 0;
}
