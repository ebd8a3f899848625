import { elementCount, sameShape } from '../base/shape.ts';
import { dtypes } from '../spec/dtype.ts';
import { CheckpointError } from '../spec/errors.ts';
import { covers } from './covers.ts';
import { formatChunk } from './format-chunk.ts';
import { chunkKey, type TensorChunk } from './held-chunk.ts';

/** Smaller chunks are not cut. One rank writes each of them whole. */
const MIN_CUT_BYTES = 65_536;

/**
 * Decides which chunks each rank writes, from the chunks that each rank holds. Every element is written once. Ranks
 * that hold the same chunks divide them, so that each writes about as many bytes. A rank writes only what it holds.
 * Throws CheckpointError if the parts of a tensor overlap or leave elements out.
 */
export function planChunks(
  held: readonly (readonly TensorChunk[])[],
): readonly (readonly TensorChunk[])[] {
  const chunks = new Map<string, { readonly chunk: TensorChunk; readonly ranks: number[] }>();
  for (const [rank, list] of held.entries()) {
    for (const chunk of list) {
      const { shape, start, stop } = chunk;
      if (stop === start && elementCount(shape) > 0) continue;
      const key = chunkKey(chunk);
      const known = chunks.get(key);
      if (known === undefined) chunks.set(key, { chunk, ranks: [rank] });
      else known.ranks.push(rank);
    }
  }
  checkCoverage([...chunks.values()].map(({ chunk }) => chunk));
  const written: TensorChunk[][] = held.map(() => []);
  for (const group of Map.groupBy(chunks.values(), ({ ranks }) => ranks.join()).values()) {
    const [first] = group;
    if (first === undefined) continue;
    divideChunks(
      group.map(({ chunk }) => chunk),
      first.ranks.map((rank) => written[rank] ?? []),
    );
  }
  return written;
}

/**
 * Lays the chunks one after another, cuts the sequence into stretches of equal length, and adds one stretch to each
 * share.
 */
function divideChunks(chunks: readonly TensorChunk[], shares: readonly TensorChunk[][]): void {
  const total = chunks.reduce((sum, chunk) => sum + bytesOf(chunk), 0);
  const shareBytes = total / shares.length;
  let offset = 0;
  for (const chunk of chunks) {
    const byteLength = bytesOf(chunk);
    const elementBytes = dtypes[chunk.dtype].bytes;
    const lastShare = shares.length - 1;
    const shareAt = (byte: number): number =>
      shareBytes === 0 ? 0 : Math.min(lastShare, Math.floor(byte / shareBytes));
    if (byteLength < MIN_CUT_BYTES || shareAt(offset) === shareAt(offset + byteLength - 1)) {
      shares[shareAt(offset + byteLength / 2)]?.push(chunk);
    } else {
      let { start } = chunk;
      for (let share = shareAt(offset); start < chunk.stop; share++) {
        const end = Math.ceil(((share + 1) * shareBytes - offset) / elementBytes);
        const stop = share >= lastShare ? chunk.stop : Math.min(chunk.stop, chunk.start + end);
        if (stop > start) shares[share]?.push({ ...chunk, start, stop });
        start = Math.max(start, stop);
      }
    }
    offset += byteLength;
  }
}

function bytesOf({ dtype, start, stop }: TensorChunk): number {
  return (stop - start) * dtypes[dtype].bytes;
}

function checkCoverage(chunks: readonly TensorChunk[]): void {
  const broken: string[] = [];
  for (const [name, parts] of Map.groupBy(chunks, (chunk) => chunk.name)) {
    const [first] = parts;
    if (first === undefined) continue;
    const { dtype, shape } = first;
    const differing = parts.find((part) => part.dtype !== dtype || !sameShape(part.shape, shape));
    if (differing !== undefined) broken.push(`${name} (its shapes or dtypes differ)`);
    else if (!covers(shape, parts)) {
      const list = parts.slice(0, 10).map((part) => formatChunk(shape, part) || 'all');
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
