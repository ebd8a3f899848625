import {
  checkOptions,
  type Module,
  option,
  type OptionRules,
  type Parameter,
} from '@shardwise/core/extend';
import type { Scheduler } from '../scheduling/scheduler.ts';
import { ModelParameters } from './model-parameters.ts';
import { weightsVersion } from './weights-version.ts';

/** How an engine takes other weights. */
export interface LoadWeightsOptions {
  /** What statistics and responses call the weights, such as `step-000100`. */
  readonly version: string;
  /**
   * What becomes of requests that are being answered. `recompute`: they go on behind the tokens that they have, whose keys
   * and values the new weights compute again. `finish`: the old weights answer them to the end, and requests that come
   * meanwhile wait. Default: `recompute`.
   */
  readonly inFlight?: 'recompute' | 'finish';
}

const loadWeightsRules: OptionRules<LoadWeightsOptions> = {
  version: option.required(option.nonEmptyText),
  inFlight: option.oneOf('recompute', 'finish'),
};

/** Weights that are to be loaded when no step runs that they could mix with. */
interface PendingLoad {
  readonly load: () => Promise<unknown>;
  readonly options: LoadWeightsOptions;
  readonly done: PromiseWithResolvers<void>;
}

/**
 * The weights of an engine: sees that they have changed, whoever changed them, and changes them between two steps. A step
 * that ran in between would compute with some weights of both.
 */
export class EngineWeights {
  /** Those that the modules had before the present step. */
  readonly #parameters: ModelParameters;
  readonly #scheduler: Scheduler;
  readonly #pending: PendingLoad[] = [];
  #loading: Promise<void> | null = null;
  /** The parameters that `beforeStep` saw. New ones that replace them may be of a lower version. */
  #seen: readonly Parameter[];
  #seenVersion: number;
  #version: string | null = null;
  #loads = 0;
  #failures = 0;

  constructor(modules: readonly Module[], scheduler: Scheduler) {
    this.#scheduler = scheduler;
    this.#parameters = new ModelParameters(modules);
    this.#seen = this.#parameters.found;
    this.#seenVersion = weightsVersion(this.#seen);
  }

  /** How often weights were loaded, how often that failed, and what the present ones are called. */
  get statistics(): {
    readonly weightsVersion: string | null;
    readonly weightsLoads: number;
    readonly weightsLoadFailures: number;
  } {
    return {
      weightsVersion: this.#version,
      weightsLoads: this.#loads,
      weightsLoadFailures: this.#failures,
    };
  }

  /** Whether the weights are those that `beforeStep` saw. */
  get isCurrent(): boolean {
    const { found } = this.#parameters;
    return found === this.#seen && weightsVersion(found) === this.#seenVersion;
  }

  /** Rejects with the error of `load`, after which the engine goes on. */
  load(load: () => Promise<unknown>, options: LoadWeightsOptions): Promise<void> {
    checkOptions('loadWeights', options, loadWeightsRules);
    const done = Promise.withResolvers<void>();
    this.#pending.push({ load, options, done });
    // Who comes from now on waits.
    if (options.inFlight === 'finish') this.#scheduler.holdNew();
    // Otherwise the next step begins with it.
    if (this.#scheduler.isIdle) void this.beforeStep();
    return done.promise;
  }

  /** Loads what can be loaded now, and forgets keys and values that other weights have made. Never rejects. */
  async beforeStep(): Promise<void> {
    for (;;) {
      if (this.#loading !== null) {
        await this.#loading;
        continue;
      }
      const [next] = this.#pending;
      if (next === undefined) break;
      if (next.options.inFlight === 'finish' && !this.#scheduler.holdNew()) break;
      this.#pending.shift();
      this.#loading = this.#perform(next);
    }
    this.#parameters.find();
    if (this.isCurrent) return;
    this.#seen = this.#parameters.found;
    this.#seenVersion = weightsVersion(this.#seen);
    this.#scheduler.restart();
  }

  async #perform({ load, options, done }: PendingLoad): Promise<void> {
    try {
      await load();
      this.#version = options.version;
      this.#loads++;
      done.resolve();
    } catch (error) {
      this.#failures++;
      done.reject(error);
    } finally {
      if (!this.#pending.some(({ options: { inFlight } }) => inFlight === 'finish')) {
        this.#scheduler.release();
      }
      this.#loading = null;
    }
  }
}
