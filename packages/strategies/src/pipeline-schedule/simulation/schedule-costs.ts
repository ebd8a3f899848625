import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { amount, range, type Schedule } from '../actions/schedule.ts';
import { scheduleError } from '../check/schedule-error.ts';

/** The costs of one microbatch in a stage. */
export interface StageCosts {
  readonly forwardMs: number;
  readonly inputGradientMs: number;
  readonly weightGradientMs: number;
  /** The time of a backward that is not split. Default: the sum of the two gradients. */
  readonly backwardMs?: number;
  /** The bytes that are kept from the forward until the backward, or until the weight gradient. Default: 0. */
  readonly activationBytes?: number;
  /**
   * The bytes that are kept between the input gradient and the weight gradient, including gradients. Default:
   * activationBytes.
   */
  readonly weightGradientBytes?: number;
}

/** The time of messages between ranks. Messages do not slow each other down. */
export interface LinkCosts {
  readonly latencyMs: number;
  /** The bytes per second of a message. Default: without limit. */
  readonly bytesPerSecond?: number;
}

/** The times of actions and messages. */
export interface ScheduleCosts {
  /** The costs of each stage. Default: each forward, input gradient and weight gradient takes 1 ms. */
  readonly stages?: readonly StageCosts[];
  /** The time of messages. Default: messages take no time. */
  readonly link?: LinkCosts;
  /**
   * The share of the shorter action of an overlapping pair that takes no time, because the longer one hides it.
   * Default: 0.
   */
  readonly hiddenShare?: number;
}

/** Costs without missing fields. */
export interface FullCosts {
  readonly stages: readonly Required<StageCosts>[];
  readonly link: Required<LinkCosts>;
  readonly hiddenShare: number;
}

const costsRules: OptionRules<ScheduleCosts> = {
  stages: option.listOf(option.object<StageCosts>('the costs of a stage')),
  link: option.object<LinkCosts>('{ latencyMs, bytesPerSecond }'),
  hiddenShare: option.fraction,
};

export const stageCostsRules: OptionRules<StageCosts> = {
  forwardMs: option.required(amount),
  inputGradientMs: option.required(amount),
  weightGradientMs: option.required(amount),
  backwardMs: amount,
  activationBytes: amount,
  weightGradientBytes: amount,
};

export const linkRules: OptionRules<LinkCosts> = {
  latencyMs: option.required(amount),
  bytesPerSecond: option.positive,
};

export const unitCosts: StageCosts = { forwardMs: 1, inputGradientMs: 1, weightGradientMs: 1 };

/** Fills in defaults. Throws ConfigError for values out of range, and if the number of stages differs. */
export function fullCosts(schedule: Schedule, costs: ScheduleCosts): FullCosts {
  checkOptions('costs of a schedule', costs, costsRules);
  const stages = costs.stages ?? range(schedule.stages).map(() => unitCosts);
  if (stages.length !== schedule.stages) {
    const found = `costs of ${stages.length} stages`;
    throw scheduleError(schedule, found, `Give costs for each of the ${schedule.stages} stages`);
  }
  if (costs.link !== undefined) checkOptions('the link of a schedule', costs.link, linkRules);
  return {
    stages: stages.map((stage, index) => {
      checkOptions(`the costs of stage ${index}`, stage, stageCostsRules);
      const { activationBytes = 0 } = stage;
      return {
        backwardMs: stage.inputGradientMs + stage.weightGradientMs,
        weightGradientBytes: activationBytes,
        ...stage,
        activationBytes,
      };
    }),
    link: { bytesPerSecond: Infinity, latencyMs: 0, ...costs.link },
    hiddenShare: costs.hiddenShare ?? 0,
  };
}

/**
 * Returns the costs of a stage if it is the first one. It computes no gradients of its inputs, so its whole backward
 * pass counts as weight gradient. For it the stage keeps all activations and the gradient that it receives, of
 * `outputBytes` bytes.
 */
export function ofFirstStage(costs: StageCosts, outputBytes: number): StageCosts {
  const { inputGradientMs, weightGradientMs, activationBytes = 0 } = costs;
  return {
    ...costs,
    inputGradientMs: 0,
    weightGradientMs: inputGradientMs + weightGradientMs,
    weightGradientBytes: activationBytes + outputBytes,
  };
}
