import { type CapturedStack, captureStack, stackFrames } from '@shardwise/core/base';
import type { FlightFrame } from './flight-dump.ts';

/**
 * The number of frames that are captured. Frames of this project's packages lie between the caller and the group, most
 * of all for calls of a graph.
 */
const MAX_FRAMES = 20;
/**
 * The average time between two captures. Capturing a stack takes 5 to 10 µs, so this is less than 2 % of the
 * time.
 */
const CAPTURE_INTERVAL_MS = 0.5;
const CAPTURES_AT_ONCE = 64;

/**
 * Captures the stacks of calls at a bounded cost: all calls of a training loop, but only a few calls of a loop that
 * does nothing but communicate.
 */
export class StackSampler {
  #credit = CAPTURES_AT_ONCE;
  #lastMs = 0;

  /**
   * The stack of the caller, or undefined if too many were taken recently. `nowMs` is on the clock of
   * performance.now().
   */
  take(nowMs: number): CapturedStack | undefined {
    const earned = (nowMs - this.#lastMs) / CAPTURE_INTERVAL_MS;
    this.#lastMs = nowMs;
    this.#credit = Math.min(this.#credit + earned, CAPTURES_AT_ONCE);
    if (this.#credit < 1) return undefined;
    this.#credit -= 1;
    return captureStack({}, MAX_FRAMES);
  }
}

/** The frames outside of this project's packages and Node, innermost first. */
export function userFrames({ stack = '' }: CapturedStack): readonly FlightFrame[] {
  return stackFrames(stack).flatMap(({ isOurs, name, path, line }) =>
    isOurs ? [] : [{ name: name === '' ? '<anonymous>' : name, filename: path, line }],
  );
}
