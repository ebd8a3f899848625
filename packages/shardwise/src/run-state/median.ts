/** Of an even number of values, it is the lower one of the two in the middle. Returns undefined if there are none. */
export function median(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}
