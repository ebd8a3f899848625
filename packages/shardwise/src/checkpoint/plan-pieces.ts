import { CheckpointError, dtypes, elementCount, sameShape } from '@shardwise/core';
import type { TensorRange } from './holding.ts';

/** Smaller ranges are written whole by one rank. */
const MIN_CUT_BYTES = 65_536;

/**
 * Which ranges each rank writes, from what each has: every element once, and ranks that have the
 * same share it out so that each writes about as many bytes. Ranges of a rank lie within those it
 * has. Throws CheckpointError where the parts of a tensor overlap or leave elements out.
 */
export function planPieces(
  held: readonly (readonly TensorRange[])[],
): readonly (readonly TensorRange[])[] {
  const ranges = new Map<string, { readonly range: TensorRange; readonly ranks: number[] }>();
  for (const [rank, list] of held.entries()) {
    for (const range of list) {
      if (range.stop === range.start && elementCount(range.shape) > 0) continue;
      const key = JSON.stringify([range.name, range.start, range.stop]);
      const known = ranges.get(key);
      if (known === undefined) ranges.set(key, { range, ranks: [rank] });
      else known.ranks.push(rank);
    }
  }
  checkCoverage([...ranges.values()].map(({ range }) => range));
  const written: TensorRange[][] = held.map(() => []);
  for (const group of Map.groupBy(ranges.values(), ({ ranks }) => ranks.join()).values()) {
    const [first] = group;
    if (first === undefined) continue;
    shareOut(
      group.map(({ range }) => range),
      first.ranks.map((rank) => written[rank] ?? []),
    );
  }
  return written;
}

/** Cuts the ranges, one behind the other, into stretches of equal length. */
function shareOut(ranges: readonly TensorRange[], shares: readonly TensorRange[][]): void {
  const total = ranges.reduce((sum, range) => sum + bytesOf(range), 0);
  const shareBytes = total / shares.length;
  let offset = 0;
  for (const range of ranges) {
    const byteLength = bytesOf(range);
    const elementBytes = dtypes[range.dtype].bytes;
    const lastShare = shares.length - 1;
    const shareAt = (byte: number): number =>
      shareBytes === 0 ? 0 : Math.min(lastShare, Math.floor(byte / shareBytes));
    if (byteLength < MIN_CUT_BYTES || shareAt(offset) === shareAt(offset + byteLength - 1)) {
      shares[shareAt(offset + byteLength / 2)]?.push(range);
    } else {
      let { start } = range;
      for (let share = shareAt(offset); start < range.stop; share++) {
        const end = Math.ceil(((share + 1) * shareBytes - offset) / elementBytes);
        const stop = share >= lastShare ? range.stop : Math.min(range.stop, range.start + end);
        if (stop > start) shares[share]?.push({ ...range, start, stop });
        start = Math.max(start, stop);
      }
    }
    offset += byteLength;
  }
}

function bytesOf({ dtype, start, stop }: TensorRange): number {
  return (stop - start) * dtypes[dtype].bytes;
}

function checkCoverage(ranges: readonly TensorRange[]): void {
  const broken: string[] = [];
  for (const [name, parts] of Map.groupBy(ranges, (range) => range.name)) {
    const [first] = parts;
    if (first === undefined) continue;
    const { dtype, shape } = first;
    const total = elementCount(shape);
    const differing = parts.find((part) => part.dtype !== dtype || !sameShape(part.shape, shape));
    let end = 0;
    for (const { start, stop } of parts.toSorted((a, b) => a.start - b.start)) {
      if (start === end) end = stop;
      else if (start < end) end = Number.NaN;
    }
    if (differing !== undefined) broken.push(`${name} (its shapes or dtypes differ)`);
    else if (end !== total) {
      const list = parts.map(({ start, stop }) => `[${start}, ${stop})`).join(', ');
      broken.push(`${name} (${list} of ${total} elements)`);
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
