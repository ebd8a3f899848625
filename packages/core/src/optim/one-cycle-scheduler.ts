import { checkOptions, withDefaults } from '../base/check-options.ts';
import { CheckpointError, ConfigError, describeValue } from '../spec/errors.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { eachGroup } from './each-group.ts';
import { requireOptimizer } from './learning-rate-scheduler.ts';

/**
 * The part of an optimizer that the scheduler changes: the learning rate of each group, and its momentum or
 * first beta.
 */
export interface OneCycleOptimizer {
  readonly paramGroups: readonly {
    lr: number;
    momentum?: number;
    betas?: readonly [number, number];
  }[];
}

/** Options of `OneCycleScheduler`. */
export interface OneCycleOptions {
  /** The highest learning rate, for all groups or for each. */
  readonly maxLr: number | readonly number[];
  /** The number of steps of the cycle. step() may be called one time less. */
  readonly totalSteps: number;
  /** The share of the steps in which the learning rate rises. Default: 0.3. */
  readonly pctStart?: number;
  /** Whether the rates follow a cosine or a line between the ends of a phase. Default: cos. */
  readonly annealStrategy?: 'cos' | 'linear';
  /** Whether the momentum, or the first beta, falls while the learning rate rises. Default: true. */
  readonly cycleMomentum?: boolean;
  /** The lowest momentum, for all groups or for each. Default: 0.85. */
  readonly baseMomentum?: number | readonly number[];
  /** The highest momentum. Default: 0.95. */
  readonly maxMomentum?: number | readonly number[];
  /** The first learning rate is maxLr divided by this. Default: 25. */
  readonly divFactor?: number;
  /** The last learning rate is the first one divided by this. Default: 1e4. */
  readonly finalDivFactor?: number;
  /**
   * Whether the learning rate falls for as many steps as it rose, and goes from there to the last one. Default:
   * false.
   */
  readonly threePhase?: boolean;
}

const perGroup = option.either(option.nonNegative, option.listOf(option.nonNegative));
const cycleRules: OptionRules<OneCycleOptions> = {
  maxLr: option.required(perGroup),
  totalSteps: option.required(option.integer(1)),
  pctStart: option.fraction,
  annealStrategy: option.oneOf('cos', 'linear'),
  cycleMomentum: option.flag,
  baseMomentum: perGroup,
  maxMomentum: perGroup,
  divFactor: option.positive,
  finalDivFactor: option.positive,
  threePhase: option.flag,
};

const cycleDefaults: Required<OneCycleOptions> = {
  maxLr: 0,
  totalSteps: 1,
  pctStart: 0.3,
  annealStrategy: 'cos',
  cycleMomentum: true,
  baseMomentum: 0.85,
  maxMomentum: 0.95,
  divFactor: 25,
  finalDivFactor: 1e4,
  threePhase: false,
};

/** A phase of the cycle, in which the learning rate and the momentum go from one value to another. */
interface Phase {
  /** The step at which the phase ends. It need not be a whole number. */
  readonly endStep: number;
  readonly rates: readonly [from: Rate, to: Rate];
  readonly momenta: readonly [from: Momentum, to: Momentum];
}
type Rate = 'first' | 'highest' | 'last';
type Momentum = 'lowest' | 'highest';

/**
 * One cycle of learning rate and momentum (torch OneCycleLR; Smith and Topin 2018). Call step() after the optimizer's
 * step().
 */
export class OneCycleScheduler {
  readonly #optimizer: OneCycleOptimizer;
  readonly #options: Required<OneCycleOptions>;
  readonly #phases: readonly Phase[];
  #step = 0;

  /** Throws ConfigError, also for an optimizer without momentum and betas unless cycleMomentum is false. */
  constructor(optimizer: OneCycleOptimizer, options: OneCycleOptions) {
    requireOptimizer('OneCycleScheduler', optimizer);
    checkOptions('OneCycleScheduler', options, cycleRules);
    this.#optimizer = optimizer;
    this.#options = withDefaults(cycleDefaults, options);
    this.#phases = phasesOf(this.#options);
    this.#apply();
  }

  /** Sets the learning rates and momenta of the next step. Throws ConfigError if the cycle has ended. */
  step(): void {
    const { totalSteps } = this.#options;
    if (this.#step >= totalSteps) throw overError(totalSteps);
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

  /** Throws CheckpointError for a step that the cycle does not have. */
  loadStateDict({ step }: { readonly step: number }): void {
    const { totalSteps } = this.#options;
    if (!option.integer(0, totalSteps).fits(step)) {
      throw new CheckpointError(
        {
          asked: `load a OneCycleScheduler of ${totalSteps} steps`,
          found: `step ${describeValue(step)}`,
          todo: 'Load the state of a scheduler with the same options',
        },
        { step, totalSteps },
      );
    }
    this.#step = step;
    this.#apply();
  }

  #apply(): void {
    const { maxLr, divFactor, finalDivFactor, cycleMomentum, baseMomentum, maxMomentum } =
      this.#options;
    const { paramGroups } = this.#optimizer;
    const count = paramGroups.length;
    const highest = eachGroup('OneCycleScheduler', 'maxLr', maxLr, count);
    const lowMomenta = eachGroup('OneCycleScheduler', 'baseMomentum', baseMomentum, count);
    const highMomenta = eachGroup('OneCycleScheduler', 'maxMomentum', maxMomentum, count);
    for (const [index, group] of paramGroups.entries()) {
      const rate = highest[index] ?? 0;
      const first = rate / divFactor;
      const rates = { first, highest: rate, last: first / finalDivFactor };
      const momenta = { lowest: lowMomenta[index] ?? 0, highest: highMomenta[index] ?? 0 };
      const { phase, share } = this.#place();
      group.lr = this.#between(rates[phase.rates[0]], rates[phase.rates[1]], share);
      if (!cycleMomentum) continue;
      const momentum = this.#between(momenta[phase.momenta[0]], momenta[phase.momenta[1]], share);
      if (group.betas !== undefined) group.betas = [momentum, group.betas[1]];
      else if (group.momentum !== undefined) group.momentum = momentum;
      else throw noMomentum(index);
    }
  }

  /** Returns the phase of the present step, and the share of the phase that is over. */
  #place(): { readonly phase: Phase; readonly share: number } {
    let start = 0;
    for (const [index, phase] of this.#phases.entries()) {
      const isLast = index === this.#phases.length - 1;
      if (this.#step <= phase.endStep || isLast) {
        const length = phase.endStep - start;
        // A phase without steps counts as over.
        return { phase, share: length === 0 ? 1 : (this.#step - start) / length };
      }
      start = phase.endStep;
    }
    throw new RangeError('a cycle has phases');
  }

  #between(from: number, to: number, share: number): number {
    if (this.#options.annealStrategy === 'linear') return (to - from) * share + from;
    return to + ((from - to) / 2) * (Math.cos(Math.PI * share) + 1);
  }
}

function phasesOf({ pctStart, totalSteps, threePhase }: Required<OneCycleOptions>): Phase[] {
  const rise = pctStart * totalSteps;
  const up: Phase = {
    endStep: rise - 1,
    rates: ['first', 'highest'],
    momenta: ['highest', 'lowest'],
  };
  const endStep = totalSteps - 1;
  if (!threePhase) {
    return [up, { endStep, rates: ['highest', 'last'], momenta: ['lowest', 'highest'] }];
  }
  return [
    up,
    { endStep: 2 * rise - 2, rates: ['highest', 'first'], momenta: ['lowest', 'highest'] },
    { endStep, rates: ['first', 'last'], momenta: ['highest', 'highest'] },
  ];
}

function noMomentum(group: number): ConfigError {
  return new ConfigError(
    {
      asked: 'a OneCycleScheduler that changes momenta',
      found: `parameter group ${group} of an optimizer without momentum and betas`,
      todo: 'Pass cycleMomentum: false',
    },
    { group },
  );
}

function overError(totalSteps: number): ConfigError {
  return new ConfigError(
    {
      asked: `step ${totalSteps + 1} of a OneCycleScheduler`,
      found: `a cycle of ${totalSteps} steps`,
      todo: 'Make totalSteps the number of updates of the whole training',
    },
    { totalSteps },
  );
}
