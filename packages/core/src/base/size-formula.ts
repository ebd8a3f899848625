import type { Sizes, SizeSymbol } from '../spec/backend.ts';

/**
 * A formula for a number: the product of powers of symbols, of powers of symbols plus a shift, and of a constant plus
 * a sum of multiples of symbols.
 */
export interface SizeFormula {
  readonly powers?: Sizes;
  /** For each symbol, the number that is added to it in its shifted factor. Null if it has no such factor. */
  readonly shifts?: readonly (number | null)[];
  /** The power of the shifted factors. Default: 1. */
  readonly shiftPower?: number;
  readonly constant: number;
  readonly slopes?: Sizes;
}

/** The number that the formula gives for these sizes. */
export function numberAt(formula: SizeFormula, sizes: Sizes): number {
  const { powers, shifts, shiftPower = 1, constant, slopes } = formula;
  let factor = 1;
  let divisor = 1;
  let sum = constant;
  sizes.forEach((size, index) => {
    const power = powers?.[index] ?? 0;
    if (power > 0) factor *= size ** power;
    else if (power < 0) divisor *= size ** -power;
    const shift = shifts?.[index] ?? null;
    if (shift !== null) factor *= (size + shift) ** shiftPower;
    sum += (slopes?.[index] ?? 0) * size;
  });
  return nearInteger((factor * sum) / divisor);
}

/** How much two computations of one number may differ, relative to it. */
const ROUNDING = 1e-11;

function nearInteger(value: number): number {
  const integer = Math.round(value);
  return Math.abs(value - integer) <= ROUNDING * Math.abs(value) ? integer : value;
}

function isAlmost(a: number, b: number): boolean {
  return Math.abs(a - b) <= ROUNDING * Math.max(Math.abs(a), Math.abs(b));
}

/** The largest number that the formula gives, rounded up. Sizes that vary are at least 2. */
export function largest(
  { powers, shifts, shiftPower = 1, constant, slopes }: SizeFormula,
  symbols: readonly SizeSymbol[],
): number {
  let factor = 1;
  let sum = constant;
  symbols.forEach(({ max }, index) => {
    const power = powers?.[index] ?? 0;
    const slope = slopes?.[index] ?? 0;
    const shift = shifts?.[index] ?? null;
    factor *= (power < 0 ? 2 : max) ** power;
    if (shift !== null) factor *= Math.max(max + shift, 2 + shift, 0) ** shiftPower;
    sum += slope * (slope < 0 ? 2 : max);
  });
  return Math.max(0, Math.ceil(nearInteger(factor * sum)));
}

/** The formula of a number that has these values at the points of a choice. Undefined if it has no formula. */
export function formulaOf(
  values: readonly number[],
  points: readonly Sizes[],
): SizeFormula | undefined {
  const [base = []] = points;
  const [first = 0] = values;
  const otherOf = (index: number): { readonly size: number; readonly value: number } => ({
    size: points[index + 1]?.[index] ?? 0,
    value: values[index + 1] ?? 0,
  });
  const found = base.map((size, index) => {
    const other = otherOf(index);
    return powerOf(other.value / first, other.size / size);
  });
  const powers = found.map((power) => power ?? 0);
  const factor = base.reduce((product, size, index) => product * size ** (powers[index] ?? 0), 1);
  const slopes = base.map((size, index) => {
    const other = otherOf(index);
    if (found[index] !== undefined) return 0;
    return nearInteger((other.value - first) / factor / (other.size - size));
  });
  const linear = base.reduce((sum, size, index) => sum + size * (slopes[index] ?? 0), 0);
  const sum = { powers, constant: nearInteger(first / factor - linear), slopes };
  const isFormula = (formula: SizeFormula): boolean =>
    points.every((point, index) => isAlmost(numberAt(formula, point), values[index] ?? 0));
  if (isFormula(sum)) return sum;
  return [1, 2]
    .map((shiftPower) => {
      const shifts = base.map((size, index) => {
        if (found[index] !== undefined) return null;
        const other = otherOf(index);
        const ratio = (other.value / first) ** (1 / shiftPower);
        return nearInteger((other.size - ratio * size) / (ratio - 1));
      });
      const shifted = base.reduce((product, size, index) => {
        const shift = shifts[index] ?? null;
        return shift === null ? product : product * (size + shift) ** shiftPower;
      }, factor);
      return { powers, shifts, shiftPower, constant: nearInteger(first / shifted) };
    })
    .find(isFormula);
}

const powersTried = [0, 1, 2, 3, -1, 4, -2] as const;

function powerOf(ratio: number, step: number): number | undefined {
  return powersTried.find((power) => isAlmost(ratio, step ** power));
}
