import type { PrintedElement } from './element-reader.ts';

/** The number of digits after the point. */
const PRECISION = 4;

/** The format of all elements of one tensor, which are printed in columns. */
export interface NumberFormat {
  readonly width: number;
  readonly format: (value: PrintedElement) => string;
}

/**
 * Chooses the format as PyTorch does. Whole numbers have no digits after the point (floats keep the point), and other
 * numbers have four. Numbers that are far apart, huge or tiny have exponents.
 */
export function numberFormat(values: readonly PrintedElement[], isFloat: boolean): NumberFormat {
  if (!isFloat) return padded(values, String);
  const numbers = values.map(Number).filter((value) => Number.isFinite(value) && value !== 0);
  const sizes = numbers.map(Math.abs);
  const smallest = sizes.reduce((least, size) => Math.min(least, size), Number.POSITIVE_INFINITY);
  const largest = sizes.reduce((most, size) => Math.max(most, size), 0);
  const isWhole = numbers.every(Number.isInteger);
  const isWide = largest / smallest > 1000 || largest > 1e8;
  if (isWide || (!isWhole && smallest < 1e-4)) return padded(numbers, exponential);
  return padded(numbers, isWhole ? whole : fixed);
}

function padded(
  values: readonly PrintedElement[],
  text: (value: PrintedElement) => string,
): NumberFormat {
  const width = values.reduce<number>((most, value) => Math.max(most, text(value).length), 1);
  return { width, format: (value) => text(value).padStart(width) };
}

const whole = (value: PrintedElement): string => finite(value, (number) => `${number.toFixed(0)}.`);
const fixed = (value: PrintedElement): string =>
  finite(value, (number) => number.toFixed(PRECISION));
const exponential = (value: PrintedElement): string =>
  finite(value, (number) =>
    number
      .toExponential(PRECISION)
      .replace(/e([+-])(\d)$/, (_, sign, digit) => `e${sign}0${digit}`),
  );

/** The text of a number, with Python's names for numbers that are not finite, and with the sign of -0. */
function finite(value: PrintedElement, text: (number: number) => string): string {
  const number = Number(value);
  if (Number.isNaN(number)) return 'nan';
  if (!Number.isFinite(number)) return number > 0 ? 'inf' : '-inf';
  return Object.is(number, -0) ? `-${text(0)}` : text(number);
}
