import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import { CheckpointError, ConfigError } from '../spec/errors.ts';
import { requireState } from './require-state.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { Tensor } from '../tensor/tensor.ts';
import { eachGroup } from './each-group.ts';
import { requireOptimizer, type ScheduledOptimizer } from './learning-rate-scheduler.ts';
import { noGrad } from '../graph/create-node.ts';
import { currentSession } from '../rank.ts';
import { allGather } from '../tensor/collectives.ts';
import { fromData } from '../tensor/create.ts';

/** Options of `ReduceLROnPlateau`. */
export interface ReduceLROnPlateauOptions {
  /** Whether the metric should become smaller or larger. Default: min. */
  readonly mode?: 'min' | 'max';
  /** The factor by which learning rates are reduced. Default: 0.1. */
  readonly factor?: number;
  /** The number of steps without progress before a reduction. Default: 10. */
  readonly patience?: number;
  /** The least change that counts as progress. Default: 1e-4. */
  readonly threshold?: number;
  /** Whether the threshold is a share of the best metric, or a difference. Default: rel. */
  readonly thresholdMode?: 'rel' | 'abs';
  /** The number of steps after a reduction that do not count as steps without progress. Default: 0. */
  readonly cooldown?: number;
  /** The least learning rate, for all groups or for each. Default: 0. */
  readonly minLr?: number | readonly number[];
  /** A change of a learning rate is left out if it is not larger than this. Default: 1e-8. */
  readonly eps?: number;
}

/** The state of a `ReduceLROnPlateau`, as plain data. */
export interface ReduceLROnPlateauState {
  /** The best metric so far. Null before the first step. Infinities are text, because JSON has none. */
  readonly best: number | 'Infinity' | '-Infinity' | null;
  readonly badSteps: number;
  readonly cooldownLeft: number;
}

const infinities = ['Infinity', '-Infinity'] as const;

const plateauRules: OptionRules<ReduceLROnPlateauOptions> = {
  mode: option.oneOf('min', 'max'),
  factor: {
    fits: (value): value is number => option.fraction.fits(value) && value < 1,
    expected: 'a number from 0 to below 1',
  },
  patience: option.count,
  threshold: option.nonNegative,
  thresholdMode: option.oneOf('rel', 'abs'),
  cooldown: option.count,
  minLr: option.either(option.nonNegative, option.listOf(option.nonNegative)),
  eps: option.nonNegative,
};

/**
 * Reduces learning rates when a metric no longer improves (torch ReduceLROnPlateau). Its state does not contain the
 * learning rates, which belong to the optimizer.
 */
export class ReduceLROnPlateau {
  readonly #optimizer: ScheduledOptimizer;
  readonly #options: Required<ReduceLROnPlateauOptions>;
  #best: number | null = null;
  #badSteps = 0;
  #cooldownLeft = 0;

  /** Throws ConfigError. */
  constructor(optimizer: ScheduledOptimizer, options: ReduceLROnPlateauOptions = {}) {
    requireOptimizer('ReduceLROnPlateau', optimizer);
    checkOptions('ReduceLROnPlateau', options, plateauRules);
    const {
      mode = 'min',
      factor = 0.1,
      patience = 10,
      threshold = 1e-4,
      thresholdMode = 'rel',
      cooldown = 0,
      minLr = 0,
      eps = 1e-8,
    } = options;
    this.#optimizer = optimizer;
    this.#options = { mode, factor, patience, threshold, thresholdMode, cooldown, minLr, eps };
    this.#leastRates();
  }

  /**
   * Takes a metric of an epoch, such as the validation loss. It is a collective. Throws ConfigError if ranks
   * have different metrics, because their learning rates would differ.
   */
  async step(metric: number | Tensor): Promise<void> {
    const value = metric instanceof Tensor ? await metric.item() : metric;
    if (typeof value !== 'number') throw noMetric();
    await requireSameOnRanks('a step of ReduceLROnPlateau', value);
    if (this.#isBetter(value)) {
      this.#best = value;
      this.#badSteps = 0;
    } else this.#badSteps++;
    if (this.#cooldownLeft > 0) {
      this.#cooldownLeft--;
      this.#badSteps = 0;
    }
    if (this.#badSteps <= this.#options.patience) return;
    this.#reduce();
    this.#cooldownLeft = this.#options.cooldown;
    this.#badSteps = 0;
  }

  /** The present learning rate of each group. */
  get learningRates(): readonly number[] {
    return this.#optimizer.paramGroups.map(({ lr }) => lr);
  }

  stateDict(): ReduceLROnPlateauState {
    const best = infinities.find((text) => Number(text) === this.#best) ?? this.#best;
    return { best, badSteps: this.#badSteps, cooldownLeft: this.#cooldownLeft };
  }

  /** Throws CheckpointError, before anything changes, for a value that is not such a state. */
  loadStateDict(state: ReduceLROnPlateauState): void {
    requireState('ReduceLROnPlateau', state);
    const { best, badSteps, cooldownLeft } = state;
    const fits = option.count.fits(badSteps) && option.count.fits(cooldownLeft);
    const isText = infinities.some((text) => text === best);
    if (!fits || !(best === null || isText || option.number.fits(best))) {
      throw new CheckpointError(
        {
          asked: 'to load the state of a ReduceLROnPlateau',
          found: JSON.stringify(state),
          todo: 'Load what stateDict() of a ReduceLROnPlateau gave',
        },
        { state },
      );
    }
    this.#best = best === null ? null : Number(best);
    this.#badSteps = badSteps;
    this.#cooldownLeft = cooldownLeft;
  }

  #isBetter(value: number): boolean {
    const { mode, threshold, thresholdMode } = this.#options;
    const isRelative = thresholdMode === 'rel';
    if (mode === 'min') {
      const best = this.#best ?? Number.POSITIVE_INFINITY;
      return value < (isRelative ? best * (1 - threshold) : best - threshold);
    }
    const best = this.#best ?? Number.NEGATIVE_INFINITY;
    return value > (isRelative ? best * (1 + threshold) : best + threshold);
  }

  #reduce(): void {
    const { factor, eps } = this.#options;
    const least = this.#leastRates();
    for (const [index, group] of this.#optimizer.paramGroups.entries()) {
      const reduced = Math.max(group.lr * factor, least[index] ?? 0);
      if (group.lr - reduced > eps) group.lr = reduced;
    }
  }

  /** The least learning rate of each group. Throws ConfigError if `minLr` is a list of another length. */
  #leastRates(): readonly number[] {
    const { length } = this.#optimizer.paramGroups;
    return eachGroup('ReduceLROnPlateau', 'minLr', this.#options.minLr, length);
  }
}

function noMetric(): ConfigError {
  return new ConfigError({
    asked: 'a step of ReduceLROnPlateau',
    found: 'no metric',
    todo: 'Pass a number, or a tensor of one element: await plateau.step(loss)',
  });
}

/**
 * Throws ConfigError on every rank if ranks have different numbers. `asked` is the operation in the message. This is a
 * collective over all axes of the mesh.
 */
async function requireSameOnRanks(asked: string, value: number): Promise<void> {
  const axes = currentSession().mesh.axes.filter(({ size }) => size > 1);
  if (axes.length === 0) return;
  const words = new Int32Array(Float64Array.of(value).buffer);
  const all = noGrad(() =>
    axes.reduce((each, { name }) => allGather(each, name, 0), fromData(words, [1, 2], 'i32')),
  );
  const numbers = new Float64Array(Int32Array.from(await all.data(), Number).buffer);
  const other = numbers.find((number) => !Object.is(number, numbers[0]));
  if (other === undefined) return;
  throw new ConfigError(
    {
      asked,
      found: `ranks that have different numbers, among them ${numbers[0]} and ${other}`,
      todo: "Give all ranks the same one: the mean, as by allReduce(loss, 'dp', { reduce: 'avg' })",
    },
    { numbers: [...numbers] },
  );
}
