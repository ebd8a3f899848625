import * as option from '../../base/option-rules.ts';
import type { OptionRule } from '../../base/option-rules.ts';

/** One number for both dims, or [height, width]. */
export type Size2d = number | readonly [number, number];

/** One number for all dims, or [depth, height, width]. */
export type Size3d = number | readonly [number, number, number];

/** The rule for a `Size2d` of numbers from `least` on. */
export function size2d(least: number): OptionRule<Size2d> {
  const { fits } = option.integer(least);
  return {
    fits: (value): value is Size2d =>
      fits(value) || (Array.isArray(value) && value.length === 2 && value.every(fits)),
    expected: `a whole number from ${least}, or two of them, [height, width]`,
  };
}

/** The rule for a `Size3d` of numbers from `least` on. */
export function size3d(least: number): OptionRule<Size3d> {
  const { fits } = option.integer(least);
  return {
    fits: (value): value is Size3d =>
      fits(value) || (Array.isArray(value) && value.length === 3 && value.every(fits)),
    expected: `a whole number from ${least}, or three of them, [depth, height, width]`,
  };
}

/** Returns a size as [height, width]. */
export function pair(size: Size2d): readonly [number, number] {
  return typeof size === 'number' ? [size, size] : size;
}

/** Returns a size as [depth, height, width]. */
export function triple(size: Size3d): readonly [number, number, number] {
  return typeof size === 'number' ? [size, size, size] : size;
}
