import {
  allReduce,
  axisOf,
  checkOptions,
  currentSession,
  DataError,
  fromData,
  noGrad,
  option,
  type OptionRule,
  type OptionRules,
  type Tensor,
  zeros,
  withCollectiveName,
} from '@shardwise/core/extend';
import { bytesNow } from '../agreement/bytes-now.ts';

/** Options of `join`. */
export interface JoinOptions {
  /** The mesh axis whose ranks may have different numbers of batches. Default: `dp`. */
  readonly axis?: string;
  /**
   * Whether gradients of steps in which not all ranks take part are still divided by the number of all ranks.
   * Otherwise they are divided by the number of ranks that take part. Default: true.
   */
  readonly divideByInitialWorldSize?: boolean;
  /** Whether all ranks stop with a DataError after the step in which a rank runs out of batches. Default: false. */
  readonly throwOnEarlyTermination?: boolean;
}

export const joinRules: OptionRules<JoinOptions> = {
  axis: option.axisName,
  divideByInitialWorldSize: option.flag,
  throwOnEarlyTermination: option.flag,
};

/** The collectives of a step of ranks that have a batch. The other ranks must take part in them. */
export interface JoinedStep {
  readonly gradients: boolean;
  readonly buffers: boolean;
}

/** How an object takes part in steps for which this rank has no batch. */
export interface JoinHook {
  /** Takes part in all collectives of one step, in order. */
  shadow(step: JoinedStep): Promise<void>;
  /** Called when all ranks are out of batches. `root` was among the last ones. It is a collective. */
  finish(root: number): Promise<void>;
  /** Called when all ranks train again. */
  leave(): void;
}

/** An object whose steps are collectives (PyTorch's Joinable). */
export interface Joinable {
  /** Called before ranks may run out of batches. */
  joinHook(context: JoinContext): JoinHook;
}

const joinable: OptionRule<Joinable> = {
  fits: (value): value is Joinable =>
    typeof value === 'object' && value !== null && 'joinHook' in value,
  expected: 'what parallelize() returned, or an optimizer that can be joined',
};
const joinablesRules = { joinables: option.required(option.listOf(joinable)) };
const bodyRules = { body: option.required(option.callback<() => unknown>()) };

/** Knows which ranks still have batches, as values in the program of each step. */
export class JoinContext {
  readonly divideByInitialWorldSize: boolean;
  readonly #axis: string;
  readonly #throws: boolean;
  readonly #stopped: DataError;
  readonly #leader: Joinable | undefined;
  #latest: Tensor | null = null;

  constructor(joinables: readonly Joinable[], options: JoinOptions = {}) {
    checkOptions('join', options, joinRules);
    checkOptions('join', { joinables }, joinablesRules);
    const {
      axis = 'dp',
      divideByInitialWorldSize = true,
      throwOnEarlyTermination = false,
    } = options;
    this.#leader = joinables[0];
    this.#axis = axis;
    this.divideByInitialWorldSize = divideByInitialWorldSize;
    this.#throws = throwOnEarlyTermination;
    this.#stopped = unequalBatches(this.#size);
  }

  /**
   * Tells the program that this rank has a batch. Only the call of the first joinable counts. Throws DataError
   * if another rank has run out of batches and this should end the training.
   */
  notify(joinable: Joinable, { gradients, buffers }: JoinedStep): void {
    if (joinable !== this.#leader) return;
    if (this.#throws && this.#someoneIsOut()) throw this.#stopped;
    const flags = new Float32Array(this.#size + 2);
    flags.set([gradients ? 1 : 0, buffers ? 1 : 0], this.#size);
    flags[this.#rank] = 1;
    this.#latest = this.#add(flags).retain();
  }

  /** The number of ranks that have a batch in this step. Shape: -> []. */
  get activeRanks(): Tensor {
    return this.#flags().slice(0, 0, this.#size).sum();
  }

  /** The value of the first rank that has a batch. Shape: N -> N. */
  fromFirstActive(value: Tensor): Tensor {
    if (this.#rank === 0) return this.#buffersOf(value);
    const isFirst = this.#flags().slice(0, 0, this.#rank).sum().eq(0);
    return this.#buffersOf(isFirst.where(value, zeros(value.shape, value.dtype)));
  }

  /** The value of fromFirstActive on a rank that has no batch. Shape: N -> N. */
  fromOthers(value: Tensor): Tensor {
    return this.#buffersOf(zeros(value.shape, value.dtype));
  }

  // Ranks with and without a batch come here by different lines of the program.
  #buffersOf(value: Tensor): Tensor {
    return withCollectiveName('buffers inside join', () => allReduce(value, this.#axis));
  }

  /** Runs the training of this rank. Then takes part in the steps of the others until all have run out of batches. */
  async run<T>(hooks: readonly JoinHook[], body: () => Promise<T>): Promise<T> {
    const outcome = await this.#outcomeOf(body);
    await currentSession().realize([]);
    let wasLast = true;
    for (;;) {
      this.#latest = noGrad(() => this.#add(new Float32Array(this.#size + 2)));
      const flags = Array.from(await this.#latest.data(), Number).map((flag) => flag > 0);
      if (!flags.slice(0, this.#size).includes(true)) break;
      wasLast = false;
      const [gradients = false, buffers = false] = flags.slice(this.#size);
      for (const hook of hooks) await hook.shadow({ gradients, buffers });
    }
    const last = new Int32Array(this.#size);
    const mine = Int32Array.of(wasLast ? 1 : 0);
    await currentSession()
      .mesh.group(this.#axis)
      .allGather(
        { bytes: new Uint8Array(mine.buffer), dtype: 'i32' },
        { bytes: new Uint8Array(last.buffer), dtype: 'i32' },
      );
    if (outcome === null || (this.#throws && last.includes(0))) throw this.#stopped;
    for (const hook of hooks) await hook.finish(last.lastIndexOf(1));
    return outcome.value;
  }

  /** Returns the result of `body`, or null if it was ended because another rank has run out of batches. */
  async #outcomeOf<T>(body: () => Promise<T>): Promise<{ readonly value: T } | null> {
    try {
      return { value: await body() };
    } catch (error) {
      if (error !== this.#stopped) throw error;
      return null;
    }
  }

  get #size(): number {
    return axisOf(currentSession().mesh, this.#axis).size;
  }

  get #rank(): number {
    return axisOf(currentSession().mesh, this.#axis).rank;
  }

  #add(flags: Float32Array<ArrayBuffer>): Tensor {
    const own = fromData(flags, [flags.length], 'f32');
    return withCollectiveName('who has a batch inside join', () => allReduce(own, this.#axis));
  }

  #flags(): Tensor {
    if (this.#latest === null) throw new RangeError('a step that nobody announced');
    return this.#latest;
  }

  /** Returns whether a rank is known to have run out of batches. It only knows of steps that have been computed. */
  #someoneIsOut(): boolean {
    const bytes = this.#latest === null ? undefined : bytesNow(this.#latest);
    if (bytes === undefined) return false;
    return new Float32Array(bytes.slice().buffer).subarray(0, this.#size).includes(0);
  }
}

export function unequalBatches(size: number): DataError {
  return new DataError({
    asked: `the same number of batches on each of ${size} ranks`,
    found: 'a rank that has run out of them while others had more',
    todo: 'Give all ranks the same number of batches (DistributedSampler pads), or leave throwOnEarlyTermination false',
  });
}

/**
 * Trains on ranks that have different numbers of batches (PyTorch's Join). A rank whose `body` has ended takes
 * part in the collectives of the others with zeros until all have ended. Then every rank gets the model of a
 * rank that ended last. Each forward pass with gradients must have its backward pass and be computed before the
 * next one. The first of `joinables` announces the steps. Throws ConfigError for what cannot be joined,
 * such as a model of which ranks have parts: for that, there is `joinBatches`.
 */
export async function join<T>(
  joinables: readonly Joinable[],
  body: () => Promise<T>,
  options: JoinOptions = {},
): Promise<T> {
  checkOptions<{ body: () => unknown }>('join', { body }, bodyRules);
  const context = new JoinContext(joinables, options);
  const hooks = joinables.map((joinable) => joinable.joinHook(context));
  try {
    return await context.run(hooks, body);
  } finally {
    for (const hook of hooks) hook.leave();
  }
}
