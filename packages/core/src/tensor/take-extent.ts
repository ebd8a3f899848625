import { commonRuns } from './common-runs.ts';
import { blockOf, type Extent } from './extent.ts';
import { elementCount } from '../shape.ts';

/** The elements of an extent from the bytes of the whole tensor, one region behind the other. */
export function takeExtent(
  whole: Uint8Array,
  { shape, regions }: Extent,
  elementBytes: number,
): Uint8Array<ArrayBuffer> {
  const all = { block: blockOf(shape), start: 0, stop: elementCount(shape) };
  const elements = regions.reduce((sum, { start, stop }) => sum + stop - start, 0);
  const taken = new Uint8Array(elements * elementBytes);
  let offset = 0;
  for (const region of regions) {
    for (const { first, second, count } of commonRuns(all, region)) {
      const run = whole.subarray(first * elementBytes, (first + count) * elementBytes);
      taken.set(run, offset + second * elementBytes);
    }
    offset += (region.stop - region.start) * elementBytes;
  }
  return taken;
}
