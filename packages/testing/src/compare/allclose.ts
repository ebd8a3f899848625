import type { Shape } from '@shardwise/core/spec';

/** How far values may be from the expected values. */
export interface Tolerance {
  /** The tolerance relative to the expected value. Default: 1e-5. */
  readonly rtol?: number;
  /** The absolute tolerance. Default: 1e-8. */
  readonly atol?: number;
}

/** Elements in row-major order. A plain list has the shape [length]. */
export type Comparable =
  | ArrayLike<number>
  | { readonly shape: Shape; readonly values: ArrayLike<number> };

/** The greatest number of differing elements that a message lists. */
const LISTED = 5;

/**
 * Says how `actual` differs, or returns undefined if it does not. Shapes must be equal, and every element must
 * have |actual - expected| <= atol + rtol * |expected|. As in torch.allclose with equal_nan, NaN equals NaN and
 * an infinity equals itself.
 */
export function describeDifference(
  actual: Comparable,
  expected: Comparable,
  { rtol = 1e-5, atol = 1e-8 }: Tolerance = {},
): string | undefined {
  const [found, wanted] = [shaped(actual), shaped(expected)];
  if (found.shape.join() !== wanted.shape.join() || found.values.length !== wanted.values.length) {
    return `shape [${found.shape.join(', ')}] where [${wanted.shape.join(', ')}] is expected`;
  }
  const differing = Array.from(wanted.values, (value, offset) => ({
    offset,
    value,
    actual: found.values[offset] ?? NaN,
  })).filter(({ actual, value }) => !isClose(actual, value, rtol, atol));
  if (differing.length === 0) return undefined;
  const lines = differing.slice(0, LISTED).map(({ offset, value, actual }) => {
    const at = `[${unravel(offset, wanted.shape).join(', ')}]`;
    return `  ${at}: ${actual}, expected ${value} (off by ${Math.abs(actual - value)})`;
  });
  const rest = differing.length > LISTED ? [`  and ${differing.length - LISTED} more`] : [];
  const title =
    `${differing.length} of ${wanted.values.length} elements of [${wanted.shape.join(', ')}] ` +
    `differ by more than ${atol} + ${rtol} * |expected|:`;
  return [title, ...lines, ...rest].join('\n');
}

/** Throws an error with the first elements that differ and their indices, as describeDifference finds them. */
export function assertAllclose(
  actual: Comparable,
  expected: Comparable,
  tolerance: Tolerance = {},
): void {
  const difference = describeDifference(actual, expected, tolerance);
  if (difference !== undefined) throw new Error(difference);
}

function isClose(actual: number, expected: number, rtol: number, atol: number): boolean {
  if (Object.is(actual, expected) || actual === expected) return true;
  // An infinite bound would accept every value.
  return (
    Number.isFinite(expected) && Math.abs(actual - expected) <= atol + rtol * Math.abs(expected)
  );
}

function shaped(x: Comparable): { shape: Shape; values: ArrayLike<number> } {
  return typeof x === 'object' && 'shape' in x ? x : { shape: [x.length], values: x };
}

function unravel(offset: number, shape: Shape): number[] {
  let rest = offset;
  return shape.map((_, dim) => {
    const stride = shape.slice(dim + 1).reduce((product, size) => product * size, 1);
    const index = Math.floor(rest / stride);
    rest -= index * stride;
    return index;
  });
}
