import { checkOptions } from '../base/check-options.ts';
import { CheckpointError, describeValue } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { eachGroup } from './each-group.ts';
import { requireOptimizer, type ScheduledOptimizer } from './learning-rate-scheduler.ts';

/** Options of `SWALR`. */
export interface SWALROptions {
  /** The final learning rate, for all groups or for each. */
  readonly swaLr: number | readonly number[];
  /** The number of calls of step() until the final learning rate is reached. Default: 10. */
  readonly annealEpochs?: number;
  /** Whether the rates follow a cosine or a line. Default: cos. */
  readonly annealStrategy?: 'cos' | 'linear';
}

const swaRules: OptionRules<SWALROptions> = {
  swaLr: option.required(option.either(option.nonNegative, option.listOf(option.nonNegative))),
  annealEpochs: option.count,
  annealStrategy: option.oneOf('cos', 'linear'),
};

/**
 * Moves learning rates to the values with which weights are averaged, and keeps them there (torch SWALR; Izmailov et
 * al. 2018). It begins with the current rates of the groups, so another scheduler can have changed them before. Its
 * state does not contain the learning rates, which belong to the optimizer.
 */
export class SWALR {
  readonly #optimizer: ScheduledOptimizer;
  readonly #options: SWALROptions;
  #step = 0;

  /** Throws ConfigError. */
  constructor(optimizer: ScheduledOptimizer, options: SWALROptions) {
    requireOptimizer('SWALR', optimizer);
    checkOptions('SWALR', options, swaRules);
    this.#optimizer = optimizer;
    this.#options = options;
    this.#finalRates();
    if (options.annealEpochs === 0) this.#apply();
  }

  /** Sets the next learning rates. */
  step(): void {
    this.#step++;
    this.#apply();
  }

  /** The present learning rate of each group. */
  get learningRates(): readonly number[] {
    return this.#optimizer.paramGroups.map(({ lr }) => lr);
  }

  stateDict(): { readonly step: number } {
    return { step: this.#step };
  }

  /** Throws CheckpointError for a step that is not a count. */
  loadStateDict({ step }: { readonly step: number }): void {
    if (!option.count.fits(step)) {
      throw new CheckpointError(
        {
          asked: 'load a SWALR',
          found: `step ${describeValue(step)}`,
          todo: 'Load what stateDict() of a SWALR gave',
        },
        { step },
      );
    }
    this.#step = step;
  }

  #apply(): void {
    const final = this.#finalRates();
    const [before, now] = [this.#shareAt(this.#step - 1), this.#shareAt(this.#step)];
    for (const [index, group] of this.#optimizer.paramGroups.entries()) {
      const end = final[index] ?? 0;
      // The rate that the annealing began with. It follows from the present rate and the share of the way before this
      // step.
      const first = before === 1 ? end : (group.lr - before * end) / (1 - before);
      group.lr = end * now + first * (1 - now);
    }
  }

  /** Returns the share of the way to the final rate after a number of steps. */
  #shareAt(step: number): number {
    const { annealEpochs = 10, annealStrategy = 'cos' } = this.#options;
    const share = annealEpochs === 0 ? 1 : Math.max(0, Math.min(1, step / annealEpochs));
    return annealStrategy === 'linear' ? share : (1 - Math.cos(Math.PI * share)) / 2;
  }

  #finalRates(): readonly number[] {
    return eachGroup('SWALR', 'swaLr', this.#options.swaLr, this.#optimizer.paramGroups.length);
  }
}
