import type { Elements } from './records.ts';

/** What a difference is compared with. */
export interface Suspects {
  readonly found: Elements;
  readonly expected: Elements;
  readonly tolerance: number;
  /** The number of parts of the batch. */
  readonly parts: number;
  /** Other values that the rank may have instead, with what that would mean. */
  readonly others: readonly { readonly elements: Elements; readonly meaning: string }[];
}

/** Says what a difference looks like. Empty if it looks like nothing known. */
export function hintOf({ found, expected, tolerance, parts, others }: Suspects): string {
  if (found.every((value) => Number(value) === 0)) return 'all elements are 0';
  const other = others.find(({ elements }) => isNear(found, elements, 1, tolerance));
  if (other !== undefined) return other.meaning;
  const factor = factorOf(found, expected);
  if (!isNear(found, expected, factor, tolerance * Math.max(1, Math.abs(factor)))) return '';
  const of = (number: number): boolean => Math.abs(factor / number - 1) < 1e-3;
  if (parts > 1 && of(parts)) {
    return `it is ${parts} times as large: a sum over the ${parts} parts of the batch where a mean is right`;
  }
  if (parts > 1 && of(1 / parts)) {
    return `it is 1/${parts} of the right value: divided by the number of parts of the batch once too often`;
  }
  return `it is ${factor.toPrecision(4)} times the right value`;
}

/** The factor with which the expected values come nearest to those that were found. */
function factorOf(found: Elements, expected: Elements): number {
  let [product, square] = [0, 0];
  for (let index = 0; index < expected.length; index++) {
    const right = Number(expected[index]);
    product += Number(found[index] ?? 0) * right;
    square += right * right;
  }
  return square === 0 ? Number.NaN : product / square;
}

function isNear(found: Elements, other: Elements, factor: number, tolerance: number): boolean {
  if (Number.isNaN(factor)) return false;
  for (let index = 0; index < other.length; index++) {
    if (!(Math.abs(Number(found[index] ?? 0) - factor * Number(other[index])) <= tolerance)) {
      return false;
    }
  }
  return other.length > 0;
}
