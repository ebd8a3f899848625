import type { OperationName } from './record-collective.ts';

/**
 * Returns the bytes that the busiest rank sends at least, for every algorithm (Patarasuk and Yuan 2009 for all-reduce).
 */
export function leastSent(operation: OperationName, ranks: number, bytes: number): number {
  if (operation === 'broadcast') return bytes;
  const once = ((ranks - 1) / ranks) * bytes;
  return operation === 'allReduce' ? 2 * once : once;
}
