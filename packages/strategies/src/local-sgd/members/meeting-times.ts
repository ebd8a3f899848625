import { option, type OptionRule } from '@shardwise/core/extend';

/** A time between outer steps: so many updates of the inner optimizer, or so many seconds. */
export type Every = number | { readonly seconds: number };

/** When fragments meet. */
export interface MeetingTimes {
  /** The time from one outer step to the next. Fragments take turns. */
  readonly period: Every;
  /** The number of updates between the message of a fragment and its outer step. Below a period of updates. */
  readonly delay: number;
}

const updates = option.integer(1);

export const everyRule: OptionRule<Every> = {
  fits: (value): value is Every =>
    typeof value === 'object' && value !== null ? isSeconds(value) : updates.fits(value),
  expected: 'a whole number of updates from 1, or { seconds } above 0',
};

/** The time of each of so many fragments, which take turns. */
export function periodOf(every: Every, fragments: number): Every {
  return typeof every === 'number' ? every / fragments : { seconds: every.seconds / fragments };
}

/** Says the time in words. */
export function everyText(every: Every): string {
  return typeof every === 'number' ? `every ${every} updates` : `every ${every.seconds} s`;
}

/** Says after an update whether it is time for the message of a fragment, and whether it is time for its outer step. */
export class MeetingClock {
  readonly #times: MeetingTimes;
  readonly #now: () => Promise<number>;
  /** Null: no update has been counted. */
  #begunMs: number | null = null;
  /** The number of updates before the message. Null: it has not been sent, or the period is one of updates. */
  #sentAfter: number | null = null;

  /** `now` returns milliseconds. */
  constructor(times: MeetingTimes, now: () => Promise<number>) {
    this.#times = times;
    this.#now = now;
  }

  /** The time to the next outer step begins. */
  async begin(): Promise<void> {
    this.#sentAfter = null;
    if (typeof this.#times.period !== 'number') this.#begunMs = await this.#now();
  }

  /** Whether the message is due after so many updates. It is due once. */
  async sends(updates: number): Promise<boolean> {
    const { period, delay } = this.#times;
    if (typeof period === 'number') return updates === period - delay;
    if (this.#sentAfter !== null) return false;
    const nowMs = await this.#now();
    this.#begunMs ??= nowMs;
    if (nowMs - this.#begunMs < 1000 * period.seconds) return false;
    this.#sentAfter = updates;
    return true;
  }

  /** Whether the outer step is due after so many updates. */
  meets(updates: number): boolean {
    const { period, delay } = this.#times;
    if (typeof period === 'number') return updates >= period;
    return this.#sentAfter !== null && updates >= this.#sentAfter + delay;
  }
}

function isSeconds(value: object): boolean {
  const { seconds, ...others } = value as { readonly seconds?: unknown };
  if (Object.keys(others).length > 0) return false;
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds > 0;
}
