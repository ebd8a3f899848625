import { nearestName } from '@shardwise/core/extend';
import { ConfigError, DataError } from 'shardwise';
import { z } from 'zod';
import { roundedCos, roundedLog } from './rounded-functions.ts';

/** The part of an optimizer that a scheduler changes. `betas` are there in optimizers of Adam's kind. */
interface ScheduledOptimizer {
  readonly paramGroups: readonly { lr: number; betas?: readonly [number, number] }[];
}

/** The learning rate, and the momentum if the schedule has one, of a step. */
interface Rates {
  readonly lr: (base: number) => number;
  readonly momentum?: number;
}

/** Returns the rates of iteration i. The first call of `step` is for i = 0; before it, i is -1. */
type RatesOf = (iteration: number) => Rates;

/** The state of a `DeepSpeedScheduler`, as plain data. */
export interface DeepSpeedSchedulerState {
  readonly lastBatchIteration: number;
}

/**
 * A schedule of DeepSpeed (deepspeed/runtime/lr_schedules.py): WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest,
 * with its learning rates to the last digit. It sets those of the first step when it is made; engine.step() advances it.
 */
export class DeepSpeedScheduler {
  readonly #optimizer: ScheduledOptimizer;
  readonly #rates: RatesOf;
  readonly #base: readonly number[];
  #iteration = -1;

  /** Throws ConfigError for a type that DeepSpeed does not have, and for parameters that the type does not have. */
  constructor(optimizer: ScheduledOptimizer, type: string, params: object = {}) {
    this.#optimizer = optimizer;
    this.#base = optimizer.paramGroups.map(({ lr }) => lr);
    this.#rates = ratesOf(type, params);
    this.#apply();
  }

  /** Sets the learning rates of the next step, or of the step after iteration `lastBatchIteration`. */
  step(lastBatchIteration: number = this.#iteration + 1): void {
    this.#iteration = lastBatchIteration;
    this.#apply();
  }

  /** The learning rate of each group of the optimizer. */
  getLastLr(): readonly number[] {
    return this.#optimizer.paramGroups.map(({ lr }) => lr);
  }

  stateDict(): DeepSpeedSchedulerState {
    return { lastBatchIteration: this.#iteration };
  }

  /** Throws DataError for a state that no scheduler has. */
  loadStateDict(state: unknown): void {
    const parsed = z.object({ lastBatchIteration: z.int().min(-1) }).safeParse(state);
    if (!parsed.success) {
      throw new DataError({
        asked: 'to load the state of a scheduler',
        found: JSON.stringify(state),
        todo: 'Load what stateDict() of a DeepSpeedScheduler gave',
      });
    }
    this.step(parsed.data.lastBatchIteration);
  }

  #apply(): void {
    const { lr, momentum } = this.#rates(this.#iteration);
    for (const [index, group] of this.#optimizer.paramGroups.entries()) {
      group.lr = lr(this.#base[index] ?? group.lr);
      if (momentum !== undefined && group.betas !== undefined) {
        group.betas = [momentum, group.betas[1]];
      }
    }
  }
}

const rate = z.number();
const count = z.int().positive();
const warmupType = z.enum(['log', 'linear']).default('log');
const warmup = {
  warmup_min_lr: rate.default(0),
  warmup_num_steps: count.default(1000),
  warmup_type: warmupType,
  last_batch_iteration: z.literal(-1).optional(),
};

const schedulerParams = {
  WarmupLR: z.strictObject({ ...warmup, warmup_max_lr: rate.nullish() }),
  WarmupDecayLR: z.strictObject({
    ...warmup,
    warmup_max_lr: rate.default(0.001),
    total_num_steps: count,
  }),
  WarmupCosineLR: z.strictObject({
    total_num_steps: count,
    warmup_min_ratio: rate.default(0),
    warmup_num_steps: count.default(1000),
    cos_min_ratio: rate.default(0.0001),
    warmup_type: warmupType,
    last_batch_iteration: z.literal(-1).optional(),
  }),
  OneCycle: z.strictObject({
    cycle_min_lr: rate,
    cycle_max_lr: rate,
    decay_lr_rate: rate.default(0),
    cycle_first_step_size: z.number().positive().default(2000),
    cycle_second_step_size: z.number().nonnegative().nullish(),
    cycle_first_stair_count: z.int().nonnegative().default(0),
    cycle_second_stair_count: z.int().nonnegative().nullish(),
    decay_step_size: z.number().nonnegative().default(0),
    cycle_momentum: z.boolean().default(true),
    cycle_min_mom: rate.default(0.8),
    cycle_max_mom: rate.default(0.9),
    decay_mom_rate: rate.default(0),
    last_batch_iteration: z.literal(-1).optional(),
  }),
  LRRangeTest: z.strictObject({
    lr_range_test_min_lr: rate.default(1e-3),
    lr_range_test_step_size: count.default(2000),
    lr_range_test_step_rate: rate.default(1),
    lr_range_test_staircase: z.boolean().default(false),
    last_batch_iteration: z.literal(-1).optional(),
  }),
};

type SchedulerType = keyof typeof schedulerParams;

function isType(type: string): type is SchedulerType {
  return Object.hasOwn(schedulerParams, type);
}

function ratesOf(type: string, params: object): RatesOf {
  if (!isType(type)) {
    throw new ConfigError(
      {
        asked: `scheduler.type ${type}`,
        found: 'no schedule of DeepSpeed',
        todo: `Write one of ${Object.keys(schedulerParams).join(', ')}, or pass lrScheduler`,
      },
      { path: 'scheduler.type', type },
    );
  }
  return makers[type](params);
}

const makers: Readonly<Record<SchedulerType, (params: object) => RatesOf>> = {
  WarmupLR: (params) => warmupRates(parsed('WarmupLR', schedulerParams.WarmupLR, params), () => 1),
  WarmupDecayLR: (params) => {
    const own = parsed('WarmupDecayLR', schedulerParams.WarmupDecayLR, params);
    const steps = Math.max(2, own.warmup_num_steps);
    const total = own.total_num_steps;
    return warmupRates(own, (i) => Math.max(0, (total - i) / Math.max(1, total - steps)));
  },
  WarmupCosineLR: (params) =>
    cosineRates(parsed('WarmupCosineLR', schedulerParams.WarmupCosineLR, params)),
  OneCycle: (params) => oneCycleRates(parsed('OneCycle', schedulerParams.OneCycle, params)),
  LRRangeTest: (params) =>
    rangeTestRates(parsed('LRRangeTest', schedulerParams.LRRangeTest, params)),
};

function parsed<Schema extends z.ZodObject>(
  type: string,
  schema: Schema,
  params: object,
): z.infer<Schema> {
  const result = schema.safeParse(params);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  const path = [
    'scheduler.params',
    ...(unknown === undefined ? (issue?.path ?? []) : [unknown]),
  ].join('.');
  const names = Object.keys(schema.shape);
  const nearest = unknown === undefined ? undefined : nearestName(unknown, names);
  throw new ConfigError(
    {
      asked: `${path} of ${type}`,
      found:
        unknown === undefined ? (issue?.message ?? 'another kind of value') : 'no such parameter',
      todo:
        nearest === undefined
          ? `Give the parameters of ${type}: ${names.join(', ')}`
          : `Write ${nearest}`,
    },
    { path },
    { cause: result.error },
  );
}

/** The share of the warmup that is over at iteration i. */
function warmupShare(i: number, steps: number, type: 'log' | 'linear'): number {
  return type === 'log' ? (1 / roundedLog(steps)) * roundedLog(i + 1) : i / steps;
}

interface Warmup {
  readonly warmup_min_lr: number;
  readonly warmup_max_lr?: number | null | undefined;
  readonly warmup_num_steps: number;
  readonly warmup_type: 'log' | 'linear';
}

function warmupRates(warmup: Warmup, after: (iteration: number) => number): RatesOf {
  const { warmup_min_lr: least, warmup_max_lr: most, warmup_type: type } = warmup;
  const steps = Math.max(2, warmup.warmup_num_steps);
  return (i) => {
    if (i < 0) return { lr: () => least };
    const share = i < steps ? warmupShare(i, steps, type) : after(i);
    return { lr: (base) => least + ((most ?? base) - least) * share };
  };
}

function cosineRates(own: z.infer<(typeof schedulerParams)['WarmupCosineLR']>): RatesOf {
  const { total_num_steps: total, warmup_min_ratio: first, cos_min_ratio: last } = own;
  const steps = Math.max(2, own.warmup_num_steps);
  return (i) => {
    if (i < 0) return { lr: () => 0 };
    if (i < steps) {
      const ratio = first + warmupShare(i, steps, own.warmup_type) * (1 - first);
      return { lr: (base) => base * ratio };
    }
    const progress = Math.min(1, (i - steps + 1) / Math.max(1, total - steps));
    const cosine = (1 + roundedCos(Math.PI * progress)) / 2;
    const ratio = Math.max(0, last + (1 - last) * cosine);
    return { lr: (base) => base * ratio };
  };
}

function oneCycleRates(own: z.infer<(typeof schedulerParams)['OneCycle']>): RatesOf {
  const first = own.cycle_first_step_size;
  const second = own.cycle_second_step_size ?? first;
  const stairs = own.cycle_first_stair_count;
  const secondStairs = own.cycle_second_stair_count ?? stairs;
  const total = first + second;
  const turn = first / total;
  const { cycle_min_lr: least, cycle_max_lr: most, decay_step_size: decay } = own;
  const { cycle_min_mom: leastMomentum, cycle_max_mom: mostMomentum } = own;
  const momentumOf = (value: number): Pick<Rates, 'momentum'> =>
    own.cycle_momentum ? { momentum: value } : {};
  const scaleOf = (batch: number): number => {
    const x = 1 + batch / total - Math.floor(1 + batch / total);
    const isFirst = x <= turn;
    const count = isFirst ? stairs : secondStairs;
    if (count === 0) return isFirst ? x / turn : (x - 1) / (turn - 1);
    const place = batch % total;
    const position = place <= first ? (place * count) / first : ((total - place) * count) / second;
    return Math.floor(position) / count;
  };
  return (i) => {
    // DeepSpeed sets the lower momentum when the schedule is made, and the one of the cycle from the first step on.
    if (i < 0) return { lr: () => least, ...momentumOf(leastMomentum) };
    if (i < total) {
      const scale = scaleOf(i + 1);
      return {
        lr: () => least + (most - least) * scale,
        ...momentumOf(mostMomentum - (mostMomentum - leastMomentum) * scale),
      };
    }
    const interval = decay === 0 ? 0 : (i - total + 1) / decay;
    return {
      lr: () => (own.decay_lr_rate === 0 ? least : least / (1 + own.decay_lr_rate * interval)),
      ...momentumOf(
        own.decay_mom_rate === 0
          ? mostMomentum
          : mostMomentum * (1 + own.decay_mom_rate * interval),
      ),
    };
  };
}

function rangeTestRates(own: z.infer<(typeof schedulerParams)['LRRangeTest']>): RatesOf {
  const { lr_range_test_min_lr: least, lr_range_test_step_size: size } = own;
  return (i) => {
    if (i < 0) return { lr: () => least };
    const interval = (i + 1) / size;
    const steps = own.lr_range_test_staircase ? Math.floor(interval) : interval;
    return { lr: () => least * (1 + own.lr_range_test_step_rate * steps) };
  };
}
