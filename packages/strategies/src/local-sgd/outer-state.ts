import {
  check,
  CheckpointError,
  ConfigError,
  describeValue,
  type HostArray,
  hostArray,
  option,
  type OptionRule,
} from '@shardwise/core/extend';
import type { Fragment } from './fragment.ts';
import { tokenCount } from './members/weighted-update.ts';
import { bytesOf, partElements } from './messages/outer-messages.ts';
import type { OuterUpdater, Progress } from './outer-updater.ts';

/** What a checkpoint keeps of a fragment of the model, on this rank. */
interface FragmentDict {
  /** The names of its parameters. Arrays have their elements one behind the other. */
  readonly parameters: readonly string[];
  /** The values that all ranks had after the latest outer step. Shape: [n]. */
  readonly anchor: HostArray;
  /** The momentum of the outer optimizer. Shape: [n]. */
  readonly momentum: HostArray | null;
  /** What messages of few bits have left out. Shapes: [n], [n / ranks]. */
  readonly workerError: HostArray | null;
  readonly serverError: HostArray | null;
  /** The mean of a message that is on its way to its outer step. Shape: [n]. */
  readonly mean: HostArray | null;
  /** The tokens that it has learned from since its anchor. */
  readonly tokens: number;
}

/** The state of the outer steps of a rank, on the host. */
export interface OuterStateDict extends Progress {
  /** Empty before the first update. */
  readonly fragments: readonly FragmentDict[];
}

/** What a strategy makes to carry out its outer steps on a model. */
export interface OuterRun {
  readonly updater: OuterUpdater;
  readonly ranks: number;
}

/**
 * The outer steps of one model under `localSgd` or `diloco`. Save it with the model: it has the outer optimizer, the values
 * that ranks had in common, and what messages have left out. Each rank has its own.
 */
export class OuterState {
  readonly #strategy: string;
  #run: OuterRun | null = null;

  constructor(strategy: string) {
    this.#strategy = strategy;
  }

  /** Called when the strategy is applied. Throws ConfigError the second time, because each model has its own state. */
  attach(run: OuterRun): void {
    if (this.#run !== null) {
      throw new ConfigError({
        asked: `to train a model by a ${this.#strategy} strategy`,
        found: 'one that trains another model already, and that keeps the state of its outer steps',
        todo: `Make a strategy for each model: parallelize(model, ${this.#strategy}({ … }))`,
      });
    }
    this.#run = run;
  }

  /** The number of outer steps of all fragments so far. */
  get outerSteps(): number {
    return this.#run?.updater.progress.outerSteps ?? 0;
  }

  /**
   * Takes an outer step of the whole model now, whatever the number of updates. After it, all ranks have the same
   * parameters, for an evaluation or to save one model. It is a collective.
   */
  async synchronize(): Promise<void> {
    await this.#known('synchronize()').updater.synchronize();
  }

  /**
   * Makes the next update by `audit.step`, with samples that are drawn for it, and takes an outer step where one is due.
   * Returns the loss. Throws ConfigError without the option `audit` of `diloco`.
   */
  async update(): Promise<number> {
    return this.#known('update()').updater.update();
  }

  /**
   * Says how many tokens, or samples, the next update is learned from. Call it before each `optimizer.step()` of `diloco`
   * with `weighted: true`. Throws ConfigError for what is no whole number above 0, and without this option.
   */
  countTokens(tokens: number): void {
    const { updater } = this.#known('countTokens()');
    if (!tokenCount.fits(tokens)) throw notTokens(tokens);
    updater.countTokens(tokens);
  }

  /** Returns the state as copies on the host. Unless members come and go, it waits for a message that is on its way. */
  async stateDict(): Promise<OuterStateDict> {
    const { updater } = this.#known('stateDict()');
    const fragments: FragmentDict[] = [];
    for (const fragment of updater.fragments) {
      const { state, names, tokens } = fragment;
      if (state === null) continue;
      const agreed = updater.savesMessages ? await fragment.agreed : null;
      const mean = agreed?.kind === 'vector' ? agreed.vector : null;
      fragments.push({
        parameters: [...names],
        anchor: arrayOf(state.anchor),
        momentum: arrayOrNull(state.momentum),
        workerError: arrayOrNull(state.errors?.worker ?? null),
        serverError: arrayOrNull(state.errors?.server ?? null),
        mean: arrayOrNull(mean),
        tokens,
      });
    }
    return { ...updater.progress, fragments };
  }

  /**
   * Goes on from a saved state. Load the model's parameters with it. Throws CheckpointError, before anything changes, for a
   * state of another model or of other options. Throws ConfigError for what is no state, and with `members` after the first
   * update.
   */
  loadStateDict(dict: unknown): void {
    const { updater, ranks } = this.#known('loadStateDict()');
    updater.checkRestore();
    const asked = `to load the outer steps of ${this.#strategy}`;
    const todo = 'Load what was saved from a strategy of the same options, for the same model';
    const { fragments, ...progress } = check.checkSavedData(outerStateDict, dict, asked, todo);
    const own = updater.fragments;
    const isNew = fragments.length === 0;
    const problem = isNew ? null : difference(own, fragments, ranks);
    if (problem !== null) throw new CheckpointError({ asked, found: problem, todo });
    for (const [index, { mean, ...saved }] of fragments.entries()) {
      const { workerError: worker, serverError: server } = saved;
      const hasErrors = worker !== null && server !== null;
      own[index]?.restore(
        {
          anchor: floatsOf(saved.anchor),
          momentum: saved.momentum && floatsOf(saved.momentum),
          errors: hasErrors ? { worker: floatsOf(worker), server: floatsOf(server) } : null,
        },
        mean && updater.savesMessages ? floatsOf(mean) : null,
        saved.tokens,
      );
    }
    updater.restore(progress);
  }

  /** Plans print their data as JSON. The state belongs to a rank, not to the plan. */
  toJSON(): object {
    return {};
  }

  #known(call: string): OuterRun {
    if (this.#run !== null) return this.#run;
    throw new ConfigError({
      asked: `${call} of the outer steps of ${this.#strategy}`,
      found: 'a strategy that has not been applied to a model',
      todo: 'Call parallelize(model, strategy) first',
    });
  }
}

function notTokens(tokens: unknown): ConfigError {
  return new ConfigError({
    asked: `countTokens(${describeValue(tokens)})`,
    found: `a value that is not ${tokenCount.expected}`,
    todo: 'Give the number of tokens, or samples, of the batch',
  });
}

const floats: OptionRule<HostArray> = {
  fits: (value): value is HostArray =>
    typeof value === 'object' &&
    value !== null &&
    'dtype' in value &&
    value.dtype === 'f32' &&
    'bytes' in value &&
    value.bytes instanceof Uint8Array &&
    value.bytes.byteLength % Float32Array.BYTES_PER_ELEMENT === 0,
  expected: 'an array of f32 values',
};

/** The most fragments, and the longest name of a parameter, that are read. */
const MAX_LISTED = 1 << 20;

const fragmentDict = check.object<FragmentDict>({
  parameters: check.list(check.limitedText(MAX_LISTED), 0, MAX_LISTED),
  anchor: floats,
  momentum: check.nullable(floats),
  workerError: check.nullable(floats),
  serverError: check.nullable(floats),
  mean: check.nullable(floats),
  // Earlier states have none.
  tokens: (value = 0, path) => check.checkValue(option.count, value, path),
});

const outerStateDict = check.object<OuterStateDict>({
  updates: option.count,
  outerSteps: option.count,
  fragments: check.list(fragmentDict, 0, MAX_LISTED),
});

/** Says in what saved fragments differ from those of a model, or returns null if they fit. */
function difference(
  own: readonly Fragment[],
  saved: readonly FragmentDict[],
  ranks: number,
): string | null {
  if (saved.length !== own.length) {
    return `${saved.length} fragments, and the model is trained in ${own.length}`;
  }
  for (const [index, fragment] of own.entries()) {
    const { [index]: found } = saved;
    if (found === undefined) continue;
    const { names, elements } = fragment;
    if (found.parameters.join('\n') !== names.join('\n')) {
      return `fragment ${index} of ${found.parameters.join(', ')}, and the model's has ${names.join(', ')}`;
    }
    const part = partElements(elements, ranks);
    for (const [name, array, length] of [
      ['anchor', found.anchor, elements],
      ['momentum', found.momentum, elements],
      ['workerError', found.workerError, elements],
      ['serverError', found.serverError, part],
      ['mean', found.mean, elements],
    ] as const) {
      if (array === null || floatsOf(array).length === length) continue;
      return `${name} of fragment ${index} with ${floatsOf(array).length} elements, not ${length}`;
    }
  }
  return null;
}

function arrayOf(values: Float32Array): HostArray {
  return hostArray('f32', [values.length], bytesOf(values).slice());
}

function arrayOrNull(values: Float32Array | null): HostArray | null {
  return values && arrayOf(values);
}

/** Returns the values of an array as a copy. */
function floatsOf({ bytes }: HostArray): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}
