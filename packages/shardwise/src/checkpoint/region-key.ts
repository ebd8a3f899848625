import type { TensorRegion } from './holding.ts';

/** The same for regions of one tensor that have the same elements. */
export function regionKey({ name, block, start, stop }: TensorRegion): string {
  return JSON.stringify([name, block, start, stop]);
}
