import { CheckpointError, ConfigError, TensorStateError } from '../spec/errors.ts';
import { LossScaler } from './loss-scaler.ts';
import { requireState } from './require-state.ts';
import { checkOptions, withDefaults } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';

/** Options of `DynamicLossScaler`. DeepSpeed's names are in brackets. */
export interface DynamicLossScalerOptions {
  /** [2 ** initial_scale_power] The scale of the first losses. Default: 2 ** 16. */
  readonly initialScale?: number;
  /** [scale_factor] The factor by which the scale grows and shrinks. Default: 2. */
  readonly scaleFactor?: number;
  /** [loss_scale_window] The number of steps without overflow until the scale grows. Default: 1000. */
  readonly scaleWindow?: number;
  /**
   * [hysteresis] The number of the first overflow that shrinks the scale, counted since the scale last grew. Earlier
   * ones are tolerated. Default: 2.
   */
  readonly hysteresis?: number;
  /**
   * [consecutive_hysteresis] Whether a step without overflow restarts the count of tolerated overflows. Default: false.
   */
  readonly consecutiveHysteresis?: boolean;
  /** [min_loss_scale] The smallest scale. Default: 1. */
  readonly minScale?: number;
  /** [raise_error_at_min_scale] Whether an overflow at the smallest scale throws. Default: true. */
  readonly throwAtMinScale?: boolean;
}

const scalerRules: OptionRules<DynamicLossScalerOptions> = {
  initialScale: option.positive,
  scaleFactor: option.number,
  scaleWindow: option.integer(1),
  hysteresis: option.integer(1),
  consecutiveHysteresis: option.flag,
  minScale: option.positive,
  throwAtMinScale: option.flag,
};

const defaults: Required<DynamicLossScalerOptions> = {
  initialScale: 2 ** 16,
  scaleFactor: 2,
  scaleWindow: 1000,
  hysteresis: 2,
  consecutiveHysteresis: false,
  minScale: 1,
  throwAtMinScale: true,
};

/** The state of a `DynamicLossScaler`, as plain data. */
export interface DynamicLossScalerState {
  readonly scale: number;
  readonly iteration: number;
  /** The iteration of the last overflow. It is -1 before the first one. */
  readonly lastOverflowIteration: number;
  readonly hysteresisLeft: number;
}

/**
 * Shrinks the scale by `scaleFactor` when gradients overflow, after the overflows that `hysteresis` tolerates. Grows it
 * by `scaleFactor` after each `scaleWindow` steps without an overflow (DeepSpeed's rule).
 */
export class DynamicLossScaler extends LossScaler {
  readonly #options: Required<DynamicLossScalerOptions>;
  #iteration = 0;
  #lastOverflowIteration = -1;
  #hysteresisLeft: number;

  /** Throws ConfigError for settings out of range. */
  constructor(options: DynamicLossScalerOptions = {}) {
    checkOptions('DynamicLossScaler', options, scalerRules);
    const settings = withDefaults(defaults, options);
    super(settings.initialScale);
    const { scaleFactor, hysteresis, minScale, initialScale } = settings;
    check('scaleFactor', scaleFactor, scaleFactor > 1 && Number.isFinite(scaleFactor));
    check('minScale', minScale, minScale > 0 && minScale <= initialScale);
    this.#options = settings;
    this.#hysteresisLeft = hysteresis;
  }

  /**
   * Applies DeepSpeed's rule. update() calls this. Throws TensorStateError for an overflow at the smallest scale,
   * unless throwAtMinScale is false.
   */
  override adjust(overflow: boolean): void {
    const { scaleFactor, scaleWindow, hysteresis, consecutiveHysteresis } = this.#options;
    const iteration = this.#iteration++;
    if (overflow) {
      this.#lastOverflowIteration = iteration;
      if (this.#hysteresisLeft === 1) this.#shrink();
      else this.#hysteresisLeft--;
      return;
    }
    if (consecutiveHysteresis) this.#hysteresisLeft = hysteresis;
    const stable = iteration - this.#lastOverflowIteration - 1;
    if (stable === 0 || stable % scaleWindow !== 0) return;
    this.#hysteresisLeft = hysteresis;
    this.lossScale = this.lossScale * scaleFactor;
  }

  stateDict(): DynamicLossScalerState {
    return {
      scale: this.lossScale,
      iteration: this.#iteration,
      lastOverflowIteration: this.#lastOverflowIteration,
      hysteresisLeft: this.#hysteresisLeft,
    };
  }

  /** Throws CheckpointError, before anything changes, for a state that no scaler can have. */
  loadStateDict(state: DynamicLossScalerState): void {
    requireState('loss scaler', state);
    const { scale, iteration, lastOverflowIteration, hysteresisLeft } = state;
    const counts =
      Number.isSafeInteger(iteration) &&
      iteration >= 0 &&
      Number.isSafeInteger(lastOverflowIteration) &&
      lastOverflowIteration >= -1 &&
      lastOverflowIteration < iteration + 1 &&
      Number.isSafeInteger(hysteresisLeft) &&
      hysteresisLeft >= 1;
    if (!counts || !(scale > 0 && Number.isFinite(scale))) {
      throw new CheckpointError(
        {
          asked: 'to load the state of a loss scaler',
          found: JSON.stringify(state),
          todo: 'Load what stateDict() of a DynamicLossScaler gave',
        },
        { state },
      );
    }
    this.lossScale = scale;
    this.#iteration = iteration;
    this.#lastOverflowIteration = lastOverflowIteration;
    this.#hysteresisLeft = hysteresisLeft;
  }

  #shrink(): void {
    const { scaleFactor, minScale, throwAtMinScale } = this.#options;
    if (this.lossScale <= minScale && throwAtMinScale) {
      throw new TensorStateError(
        {
          asked: `to make a loss scale of ${this.lossScale} smaller`,
          found: `it is the smallest that is allowed, and gradients are not finite`,
          todo: 'Look for NaN and infinities in the data and in the model, or lower the learning rate',
        },
        { scale: this.lossScale, minScale },
      );
    }
    this.lossScale = Math.max(this.lossScale / scaleFactor, minScale);
  }
}

function check(name: string, value: number, fits: boolean): void {
  if (fits) return;
  throw new ConfigError(
    {
      asked: `a loss scaler with ${name} ${value}`,
      found: 'a number out of range',
      todo: 'Use a finite factor above 1, and a smallest scale in (0, initialScale]',
    },
    { name, value },
  );
}
