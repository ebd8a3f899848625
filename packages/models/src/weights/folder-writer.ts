import {
  commonRuns,
  currentSession,
  dtypes,
  type HeldChunk,
  type TensorChunk,
  type WritableFolder,
  wholeChunk,
} from '@shardwise/core/extend';
import {
  CONFIG_NAME,
  heldPart,
  INDEX_NAME,
  type ModelFiles,
  type ModelWriter,
  weightFile,
} from './model-writer.ts';
import { rankInMesh } from './on-mesh.ts';
import type { Shard } from './shards.ts';

/** The bytes of a file that the ranks bring together at a time. */
const PIECE_BYTES = 4 * 1024 * 1024;

/**
 * Writes to a bucket, whose files can only be written from their beginning to their end. One rank writes a file; piece by
 * piece, it gets what the others have of it. A bucket cannot rename files, so the config, by which readers find a model,
 * goes before anything is written, and comes last.
 */
export function folderWriter(folder: WritableFolder): ModelWriter {
  const remove = async (isLeft: (name: string) => boolean): Promise<void> => {
    const entries = await folder.list('');
    await folder.remove(entries.map(({ name }) => name).filter(isLeft));
  };
  return {
    place: folder.place,
    async prepare() {
      await folder.remove([CONFIG_NAME, INDEX_NAME]);
      await remove((name) => weightFile.test(name));
    },
    async write({ shards }, chunks, own) {
      const ranks = currentSession().mesh.axes.reduce((product, { size }) => product * size, 1);
      const failures: unknown[] = [];
      const held = Map.groupBy(own, ({ name }) => name);
      for (const [index, shard] of shards.entries()) {
        const isWriter = index % ranks === rankInMesh();
        const parts = chunks.filter(({ name }) => shard.byteOffsets.has(name));
        const pieces = piecesOf(shard, isWriter, parts, held, failures);
        // Whoever fails goes on with the others, which wait for its pieces.
        const rest = { next: () => pieces.next() };
        if (isWriter) {
          await folder
            .write(shard.fileName, { [Symbol.asyncIterator]: () => rest })
            .catch((error: unknown) => failures.push(error));
        }
        while ((await rest.next()).done !== true);
      }
      if (failures.length > 0) throw failures[0];
    },
    async publish({ index, config }) {
      const encoder = new TextEncoder();
      if (index !== null) await folder.write(INDEX_NAME, [encoder.encode(index)]);
      if (config !== null) await folder.write(CONFIG_NAME, [encoder.encode(config)]);
    },
    discard: ({ shards }: ModelFiles) =>
      remove((name) => shards.some(({ fileName }) => fileName === name)),
  };
}

/** The bytes of a file, of which each rank brings what it has. It is a collective. Failures of this rank go to a list. */
async function* piecesOf(
  shard: Shard,
  isWriter: boolean,
  parts: readonly TensorChunk[],
  held: ReadonlyMap<string, readonly HeldChunk[]>,
  failures: unknown[],
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const { mesh } = currentSession();
  for (let start = 0; start < shard.byteLength; start += PIECE_BYTES) {
    const piece = new Uint8Array(Math.min(PIECE_BYTES, shard.byteLength - start));
    if (isWriter) piece.set(shard.header.subarray(start, start + piece.byteLength));
    try {
      await fillPiece(piece, start, shard, parts, held);
    } catch (error) {
      failures.push(error);
    }
    // Each byte comes from one rank, and is 0 on the others.
    for (const { name } of mesh.axes) {
      await mesh.group(name).allReduce({ bytes: piece, dtype: 'u8' }, 'or');
    }
    yield piece;
  }
}

/** Writes what this rank has of a piece of a file, which begins at byte `start`, to its place in the piece. */
async function fillPiece(
  piece: Uint8Array<ArrayBuffer>,
  start: number,
  { byteOffsets }: Shard,
  parts: readonly TensorChunk[],
  held: ReadonlyMap<string, readonly HeldChunk[]>,
): Promise<void> {
  const end = start + piece.byteLength;
  for (const chunk of parts) {
    const elementBytes = dtypes[chunk.dtype].bytes;
    const tensorStart = byteOffsets.get(chunk.name) ?? 0;
    const whole = wholeChunk(chunk.shape);
    if (tensorStart >= end || tensorStart + whole.stop * elementBytes <= start) continue;
    const source = heldPart(held.get(chunk.name), chunk);
    const bytes = await source.read();
    for (const { first, second, count } of commonRuns(whole, chunk)) {
      const at = tensorStart + first * elementBytes;
      const from = (second + chunk.start - source.start) * elementBytes - at;
      const runStart = Math.max(start, at);
      const runEnd = Math.min(end, at + count * elementBytes);
      if (runStart >= runEnd) continue;
      piece.set(bytes.subarray(from + runStart, from + runEnd), runStart - start);
    }
  }
}
