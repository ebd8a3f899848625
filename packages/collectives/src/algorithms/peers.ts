/** The other ranks, next one first, so that they do not all turn to the same one at a time. */
export function peersOf({
  rank,
  size,
}: {
  readonly rank: number;
  readonly size: number;
}): readonly number[] {
  return Array.from({ length: size - 1 }, (_, index) => (rank + 1 + index) % size);
}
