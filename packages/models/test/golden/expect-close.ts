import { expect } from 'vitest';

/** Expects values to within 1e-4 of their size, and of 1 where they are smaller. */
export function expectClose(
  found: ArrayLike<number | bigint>,
  expected: readonly number[] | undefined,
  name = '',
): void {
  expect(found.length, name).toBe(expected?.length);
  for (const [i, value] of (expected ?? []).entries()) {
    expect(Math.abs(Number(found[i]) - value), `${name}[${i}] = ${value}`).toBeLessThan(
      1e-4 * Math.max(1, Math.abs(value)),
    );
  }
}
