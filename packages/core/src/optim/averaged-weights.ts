import { noGrad } from '../graph/create-node.ts';
import type { Module } from '../nn/module/module.ts';
import { requireModule } from '../nn/module/require-module.ts';
import { writeStateDict } from '../nn/state/state-dict.ts';
import { currentSession } from '../rank.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import type { HostArray, HostArrays } from '../serialization/host-array.ts';
import { checkOptions } from '../base/check-options.ts';
import { CheckpointError, describeValue, TensorStateError } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { ParameterState } from './parameter-state.ts';
import { readWhole } from './saved-arrays.ts';
import { Scalar } from './scalar.ts';

/** Options of `AveragedWeights`. */
export interface AveragedWeightsOptions {
  /**
   * The share that the average keeps in an update: an exponential moving average, for example 0.999. Default:
   * all updates have the same weight (stochastic weight averaging: Izmailov et al. 2018).
   */
  readonly decay?: number;
}

/** The averages of whole parameters, under their names in the model. */
export interface AveragedWeightsState {
  readonly updates: number;
  readonly weights: HostArrays;
}

const averageRules: OptionRules<AveragedWeightsOptions> = { decay: option.fraction };
/**
 * The average of the parameters of a model over a training (torch AveragedModel). Each rank keeps the average of its
 * parts. Make it after parallelize(). Running statistics of batch norms are not averaged: the latest ones of the model
 * are used, or those that updateBatchNorm computes inside `use`.
 */
export class AveragedWeights {
  readonly #model: Module;
  readonly #decay: number | undefined;
  readonly #states = new Map<Tensor, ParameterState>();
  #updates = 0;
  /** Whether the model has the average as its parameters at the moment. */
  #isUsed = false;

  /** Throws ConfigError for a decay outside [0, 1]. */
  constructor(model: Module, options: AveragedWeightsOptions = {}) {
    checkOptions('AveragedWeights', options, averageRules);
    requireModule('AveragedWeights', model);
    this.#model = model;
    this.#decay = options.decay;
  }

  /** The number of updates so far. */
  get updates(): number {
    return this.#updates;
  }

  /**
   * Adds the present parameters to the average. The first update makes them the average. Call it after the
   * optimizer's step(). It is computed with the next step. Throws TensorStateError inside `use`, and for a
   * model that has got other parameters since the first update.
   */
  update(): void {
    this.#requireOwnParameters('update');
    const share = this.#decay === undefined ? 1 / (this.#updates + 1) : 1 - this.#decay;
    const take = new Scalar(this.#updates === 0 ? 1 : share);
    withoutValues(() =>
      noGrad(() => {
        for (const [, parameter] of this.#model.namedParameters()) {
          const { part } = parameter;
          const average = this.#averageOf(parameter);
          const { shape } = part;
          const isFirst = this.#updates === 0;
          const next = average.add(part.sub(average).mul(take.of(shape)));
          average.assign(isFirst ? part.mul(1) : next);
        }
      }),
    );
    this.#updates++;
  }

  /**
   * Runs `body` while the model has the average as its parameters, for example for an evaluation. Do not train
   * inside it. Throws TensorStateError before the first update.
   */
  async use<T>(body: () => T | Promise<T>): Promise<T> {
    this.#requireUpdates('use');
    await this.#swap();
    this.#isUsed = true;
    try {
      return await body();
    } finally {
      this.#isUsed = false;
      await this.#swap();
    }
  }

  /** Makes the average the parameters of the model permanently. Throws TensorStateError before the first update. */
  async apply(): Promise<void> {
    this.#requireUpdates('apply');
    withoutValues(() =>
      noGrad(() => {
        for (const [, parameter] of this.#model.namedParameters()) {
          parameter.part.assign(this.#averageOf(parameter).mul(1));
        }
      }),
    );
    await currentSession().realize([]);
  }

  /** The averages of whole parameters, as copies on the host. If ranks share parameters out, this is a collective. */
  async stateDict(): Promise<AveragedWeightsState> {
    const weights: Record<string, HostArray> = {};
    for (const [name, parameter] of this.#model.namedParameters()) {
      if (this.#updates === 0) break;
      const average = this.#averageOf(parameter);
      weights[name] = await readWhole(noGrad(() => parameter.wholeOf(average)));
    }
    return { updates: this.#updates, weights };
  }

  /** Each rank loads its parts. Throws CheckpointError, before anything changes, for weights of another model. */
  async loadStateDict({ updates, weights }: AveragedWeightsState): Promise<void> {
    if (!option.count.fits(updates)) {
      throw new CheckpointError(
        {
          asked: 'load averaged weights',
          found: `${describeValue(updates)} as its number of updates`,
          todo: 'Load what stateDict() of AveragedWeights gave',
        },
        { updates },
      );
    }
    if (this.#isUsed) this.#requireOwnParameters('loadStateDict');
    const parameters = updates === 0 ? [] : this.#model.namedParameters();
    const targets = parameters.map(([name, parameter]) => {
      const { shape, dtype } = parameter;
      const assign = (whole: Tensor): unknown =>
        this.#averageOf(parameter).assign(noGrad(() => parameter.partOf(whole)));
      return [name, { shape, dtype, assign }] as const;
    });
    await writeStateDict('AveragedWeights', targets, weights, {});
    this.#updates = updates;
  }

  /** The average of this rank's part of a parameter. Shape: that of the part. */
  #averageOf(parameter: Tensor): Tensor {
    const { part } = parameter;
    const known = this.#states.get(parameter);
    const state = known ?? new ParameterState(() => ({ shape: part.shape, dtype: part.dtype }));
    this.#states.set(parameter, state);
    return state.tensor('average');
  }

  #swap(): Promise<unknown> {
    withoutValues(() =>
      noGrad(() => {
        for (const [, parameter] of this.#model.namedParameters()) {
          const average = this.#averageOf(parameter);
          const [own, other] = [parameter.part.mul(1), average.mul(1)];
          parameter.part.assign(other);
          average.assign(own);
        }
      }),
    );
    return currentSession().realize([]);
  }

  #requireUpdates(method: string): void {
    this.#requireOwnParameters(method);
    if (this.#updates > 0) return;
    throw new TensorStateError({
      asked: `${method}() of AveragedWeights`,
      found: 'no update yet, so there is no average',
      todo: 'Call update() after steps of the optimizer',
    });
  }

  #requireOwnParameters(method: string): void {
    const asked = `${method}() of AveragedWeights`;
    if (this.#isUsed) {
      const found = "the model has the average as its parameters, inside of 'use'";
      throw new TensorStateError({ asked, found, todo: "Call it after what 'use' returns" });
    }
    if (this.#updates === 0) return;
    for (const [name, parameter] of this.#model.namedParameters()) {
      if (this.#states.has(parameter)) continue;
      throw new TensorStateError(
        {
          asked,
          found: `'${name}', which the model did not have at the first update`,
          todo: 'Make AveragedWeights after parallelize(), and when the model has all its parameters',
        },
        { parameter: name },
      );
    }
  }
}
