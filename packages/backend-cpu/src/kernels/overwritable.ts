import { rowOverwrites } from '../lanes/row-overwrites.ts';
import type { KernelCall } from './kernel-call.ts';

/**
 * The pairs of places among a call's values of which the second may be written over the first, because the kernel reads
 * each element for the last time before it writes there.
 */
export function overwritable({
  loop,
  reads = [],
  values,
}: KernelCall): readonly (readonly [read: number, written: number])[] {
  if (loop?.kind === 'rows') return rowOverwrites(loop.program);
  // A loop over elements loads all of its operands before it stores. It walks over all of them in the same order.
  return reads.flatMap((access, read) =>
    access === 'element'
      ? values.slice(reads.length).map((_, place) => [read, reads.length + place] as const)
      : [],
  );
}
