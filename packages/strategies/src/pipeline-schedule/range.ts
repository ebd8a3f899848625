/** 0, 1, …, length - 1; empty for a length below 1. */
export function range(length: number): number[] {
  return Array.from({ length: Math.max(0, length) }, (_, index) => index);
}
