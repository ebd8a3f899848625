import { CheckpointError, dtypes, elementCount, sameShape } from '@shardwise/core/extend';
import { covers } from './covers.ts';
import { formatRegion } from './format-region.ts';
import type { TensorRegion } from './holding.ts';
import { regionKey } from './region-key.ts';

/** Smaller regions are written whole by one rank. */
const MIN_CUT_BYTES = 65_536;

/**
 * Which regions each rank writes, from what each has: every element once, and ranks that have the
 * same share it out so that each writes about as many bytes. Regions of a rank lie within those it
 * has. Throws CheckpointError where the parts of a tensor overlap or leave elements out.
 */
export function planPieces(
  held: readonly (readonly TensorRegion[])[],
): readonly (readonly TensorRegion[])[] {
  const regions = new Map<string, { readonly region: TensorRegion; readonly ranks: number[] }>();
  for (const [rank, list] of held.entries()) {
    for (const region of list) {
      const { shape, start, stop } = region;
      if (stop === start && elementCount(shape) > 0) continue;
      const key = regionKey(region);
      const known = regions.get(key);
      if (known === undefined) regions.set(key, { region, ranks: [rank] });
      else known.ranks.push(rank);
    }
  }
  checkCoverage([...regions.values()].map(({ region }) => region));
  const written: TensorRegion[][] = held.map(() => []);
  for (const group of Map.groupBy(regions.values(), ({ ranks }) => ranks.join()).values()) {
    const [first] = group;
    if (first === undefined) continue;
    shareOut(
      group.map(({ region }) => region),
      first.ranks.map((rank) => written[rank] ?? []),
    );
  }
  return written;
}

/** Cuts the regions, one behind the other, into stretches of equal length. */
function shareOut(regions: readonly TensorRegion[], shares: readonly TensorRegion[][]): void {
  const total = regions.reduce((sum, region) => sum + bytesOf(region), 0);
  const shareBytes = total / shares.length;
  let offset = 0;
  for (const region of regions) {
    const byteLength = bytesOf(region);
    const elementBytes = dtypes[region.dtype].bytes;
    const lastShare = shares.length - 1;
    const shareAt = (byte: number): number =>
      shareBytes === 0 ? 0 : Math.min(lastShare, Math.floor(byte / shareBytes));
    if (byteLength < MIN_CUT_BYTES || shareAt(offset) === shareAt(offset + byteLength - 1)) {
      shares[shareAt(offset + byteLength / 2)]?.push(region);
    } else {
      let { start } = region;
      for (let share = shareAt(offset); start < region.stop; share++) {
        const end = Math.ceil(((share + 1) * shareBytes - offset) / elementBytes);
        const stop = share >= lastShare ? region.stop : Math.min(region.stop, region.start + end);
        if (stop > start) shares[share]?.push({ ...region, start, stop });
        start = Math.max(start, stop);
      }
    }
    offset += byteLength;
  }
}

function bytesOf({ dtype, start, stop }: TensorRegion): number {
  return (stop - start) * dtypes[dtype].bytes;
}

function checkCoverage(regions: readonly TensorRegion[]): void {
  const broken: string[] = [];
  for (const [name, parts] of Map.groupBy(regions, (region) => region.name)) {
    const [first] = parts;
    if (first === undefined) continue;
    const { dtype, shape } = first;
    const differing = parts.find((part) => part.dtype !== dtype || !sameShape(part.shape, shape));
    if (differing !== undefined) broken.push(`${name} (its shapes or dtypes differ)`);
    else if (!covers(shape, parts)) {
      const list = parts.slice(0, 10).map((part) => formatRegion(shape, part) || 'all');
      broken.push(`${name} (${list.join(', ')} of ${elementCount(shape)} elements)`);
    }
  }
  if (broken.length === 0) return;
  throw new CheckpointError(
    {
      asked: 'to save tensors of which each rank has a part',
      found: `the parts do not make up ${broken.slice(0, 10).join(', ')}`,
      todo: 'Save on every rank after the same update, with the same model and optimizer',
    },
    { broken },
  );
}
