import {
  boxShape,
  dtypes,
  elementCount,
  encodeSafetensorsHeader,
  formatChunk,
  type HeldChunk,
  sameBox,
  type Shape,
  type TensorChunk,
} from '@shardwise/core/extend';
import type { CheckpointFiles } from '../places/checkpoint-files.ts';
import { CHECKSUM_BYTES, type StoredChunk } from '../format/index-file.ts';

/** A chunk that this rank writes, and the source of its bytes. */
export interface OwnChunk extends TensorChunk {
  read(): Promise<Uint8Array>;
}

/** A chunk as it was written, and the name of its tensor. */
interface WrittenChunk {
  readonly name: string;
  readonly chunk: StoredChunk;
}

export interface WrittenFile {
  readonly byteLength: number;
  readonly chunks: readonly WrittenChunk[];
}

/** Returns the chunks that a rank writes. Their bytes are views of what the rank holds. */
export function ownChunks(
  chunks: readonly TensorChunk[],
  heldChunks: readonly HeldChunk[],
): readonly OwnChunk[] {
  const held = Map.groupBy(heldChunks, ({ name }) => name);
  return chunks.map((chunk) => {
    const heldChunk = held
      .get(chunk.name)
      ?.find(
        ({ box, start, stop }) =>
          sameBox(box, chunk.box) && start <= chunk.start && chunk.stop <= stop,
      );
    if (heldChunk === undefined) throw new RangeError(`no part of ${chunk.name} to write`);
    const elementBytes = dtypes[chunk.dtype].bytes;
    const read = async (): Promise<Uint8Array> =>
      (await heldChunk.read()).subarray(
        (chunk.start - heldChunk.start) * elementBytes,
        (chunk.stop - heldChunk.start) * elementBytes,
      );
    return { ...chunk, read };
  });
}

/** Copies the chunks to separate memory, so that their sources may change. */
export async function stageChunks(chunks: readonly OwnChunk[]): Promise<readonly OwnChunk[]> {
  const staged: OwnChunk[] = [];
  for (const chunk of chunks) {
    const bytes = new Uint8Array(await chunk.read());
    staged.push({ ...chunk, read: async () => bytes });
  }
  return staged;
}

/**
 * Writes chunks as the safetensors file of rank `rank`. One chunk is in memory at a time. Whole tensors have their own
 * names, and other chunks have the names that formatChunk returns.
 */
export async function writeChunks(
  files: CheckpointFiles,
  path: string,
  rank: number,
  chunks: readonly OwnChunk[],
): Promise<WrittenFile> {
  const byEntry = new Map(chunks.map((chunk) => [entryName(chunk), chunk]));
  if (byEntry.size !== chunks.length) throw new RangeError('two tensors of one name');
  const { header, places } = encodeSafetensorsHeader(
    Object.fromEntries(
      [...byEntry].map(([name, chunk]) => [
        name,
        { dtype: chunk.dtype, shape: shapeOfChunk(chunk) },
      ]),
    ),
    { format: 'pt' },
  );
  const written: WrittenChunk[] = [];
  let byteLength = header.byteLength;
  async function* contents(): AsyncGenerator<Uint8Array> {
    yield header;
    for (const place of places) {
      const chunk = byEntry.get(place.name);
      if (chunk === undefined) continue;
      const { name, box, start, stop } = chunk;
      const bytes = await chunk.read();
      if (bytes.byteLength !== place.byteLength) {
        throw new RangeError(`${bytes.byteLength} bytes of ${place.name}, not ${place.byteLength}`);
      }
      const { byteOffset } = place;
      const checksums = checksumsOf(files, bytes);
      written.push({ name, chunk: { file: rank, box, start, stop, byteOffset, checksums } });
      byteLength += bytes.byteLength;
      yield bytes;
    }
  }
  await files.writeFile(path, contents());
  return { byteLength, chunks: written };
}

function checksumsOf(files: CheckpointFiles, bytes: Uint8Array): readonly number[] {
  return Array.from({ length: Math.ceil(bytes.byteLength / CHECKSUM_BYTES) }, (_, index) =>
    files.checksum(bytes.subarray(index * CHECKSUM_BYTES, (index + 1) * CHECKSUM_BYTES)),
  );
}

function entryName(chunk: TensorChunk): string {
  return `${chunk.name}${formatChunk(chunk.shape, chunk)}`;
}

/**
 * Returns the shape of the chunk's box. If the chunk consists of whole rows of the box, returns the shape of these
 * rows.
 */
function shapeOfChunk({ box, start, stop }: TensorChunk): Shape {
  const shape = boxShape(box);
  if (start === 0 && stop === elementCount(shape)) return shape;
  const [, ...rest] = shape;
  const rowElements = elementCount(rest);
  const hasRows = start % rowElements === 0 && stop % rowElements === 0;
  return hasRows ? [(stop - start) / rowElements, ...rest] : [stop - start];
}
