/** Returns 0, 1, …, length - 1. The list is empty for lengths below 1. */
export function range(length: number): number[] {
  return Array.from({ length: Math.max(0, length) }, (_, index) => index);
}
