import { describeDifference } from './allclose.ts';
import type { Comparable, Tolerance } from './allclose.ts';

declare module 'vitest' {
  // The type parameters must be the same as those of vitest's interface, with which this one is merged.
  interface Matchers<R extends void | Promise<void> = void | Promise<void>, T = unknown> {
    toBeAllclose(expected: Comparable, tolerance?: Tolerance): R;
  }
}

/**
 * A matcher for vitest: call `expect.extend({ toBeAllclose })`, then
 * `expect(actual).toBeAllclose(expected, { rtol })`.
 */
export function toBeAllclose(
  actual: Comparable,
  expected: Comparable,
  tolerance: Tolerance = {},
): { pass: boolean; message: () => string } {
  const difference = describeDifference(actual, expected, tolerance);
  return {
    pass: difference === undefined,
    message: () => difference ?? 'all elements are close, which was not expected',
  };
}
