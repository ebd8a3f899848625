import { randomUUID } from 'node:crypto';
import {
  commonRuns,
  currentSession,
  dtypes,
  type HeldChunk,
  placeInMesh,
  type TensorChunk,
  type WritableFolder,
  wholeChunk,
} from '@shardwise/core/extend';
import {
  CONFIG_NAME,
  heldPart,
  INDEX_NAME,
  type ModelWriter,
  SINGLE_NAME,
  weightFile,
} from './model-writer.ts';
import type { Shard } from './shards.ts';

/** The bytes of a file that the ranks bring together at a time. */
const PIECE_BYTES = 4 * 1024 * 1024;

/** What is in the bucket before a save. */
interface Earlier {
  readonly names: ReadonlySet<string>;
  readonly config: string | undefined;
}

/**
 * Writes to a bucket, whose files can only be written from their beginning to their end, and not renamed. One rank writes
 * a file; piece by piece, it gets what the others have of it. All of the new model is there before readers find any of
 * it: shards have names that no file has, until one write of the index, or the end of the one file of weights, replaces
 * the model. Only a config that changes goes before that and comes after it, so that weights are never read with the
 * config of others.
 */
export function folderWriter(folder: WritableFolder): ModelWriter {
  let earlier: Earlier = { names: new Set(), config: undefined };
  let isConfigRemoved = false;
  const removeOtherConfig = async (config: string | null): Promise<void> => {
    if (earlier.config === undefined || earlier.config === config) return;
    isConfigRemoved = true;
    await folder.remove([CONFIG_NAME]);
  };
  return {
    place: folder.place,
    async prepare({ shards, index }) {
      const entries = await folder.list('');
      const names = new Set(entries.map(({ name }) => name));
      earlier = { names, config: await folder.readText(CONFIG_NAME) };
      const isTaken = index !== null && shards.some(({ fileName }) => names.has(fileName));
      return isTaken ? randomUUID().slice(0, 8) : '';
    },
    async write({ shards, config }, chunks, own) {
      const { rank, worldSize } = placeInMesh(currentSession().mesh);
      const failures: unknown[] = [];
      const held = Map.groupBy(own, ({ name }) => name);
      const isOnly = shards.length === 1;
      for (const [index, shard] of shards.entries()) {
        const isWriter = index % worldSize === rank;
        const parts = chunks.filter(({ name }) => shard.byteOffsets.has(name));
        const pieces = piecesOf(shard, isWriter, parts, held, failures);
        let isStopped = false;
        const next = async (): Promise<IteratorResult<Uint8Array<ArrayBuffer>, boolean>> => {
          const piece = await pieces.next();
          if (piece.done !== true) return piece;
          isStopped ||= piece.value;
          // An error is what lets the file not come into being.
          if (isStopped) throw new Error('a rank has failed');
          if (isOnly) await removeOtherConfig(config);
          return piece;
        };
        if (isWriter) {
          await folder
            .write(shard.fileName, { [Symbol.asyncIterator]: () => ({ next }) })
            .catch((error: unknown) => {
              if (!isStopped) failures.push(error);
            });
        }
        // Whoever has failed goes on until the others, which wait for its pieces, have heard of it.
        for (let piece = await pieces.next(); ; piece = await pieces.next()) {
          if (piece.done !== true) continue;
          isStopped ||= piece.value;
          break;
        }
        if (isStopped) break;
      }
      if (failures.length > 0) throw failures[0];
    },
    async publish({ shards, index, config }) {
      const encoder = new TextEncoder();
      const names = new Set(shards.map(({ fileName }) => fileName));
      if (index !== null) {
        await removeOtherConfig(config);
        await folder.write(INDEX_NAME, [encoder.encode(index)]);
        // Readers look for the one file first.
        if (earlier.names.has(SINGLE_NAME)) await folder.remove([SINGLE_NAME]);
      }
      if (config !== null && config !== earlier.config) {
        await folder.write(CONFIG_NAME, [encoder.encode(config)]);
      }
      const left = [...earlier.names].filter((name) => weightFile.test(name) && !names.has(name));
      await folder.remove(index === null ? [INDEX_NAME, ...left] : left);
    },
    async discard({ shards }) {
      const written = shards.map(({ fileName }) => fileName);
      await folder.remove(written.filter((name) => !earlier.names.has(name)));
      if (!isConfigRemoved) return;
      await folder.write(CONFIG_NAME, [new TextEncoder().encode(earlier.config ?? '')]);
    },
  };
}

/**
 * The bytes of a file, of which each rank brings what it has. It is a collective. Failures of this rank go to a list, and
 * end the pieces on all ranks. Returns whether one of them has failed.
 */
async function* piecesOf(
  shard: Shard,
  isWriter: boolean,
  parts: readonly TensorChunk[],
  held: ReadonlyMap<string, readonly HeldChunk[]>,
  failures: unknown[],
): AsyncGenerator<Uint8Array<ArrayBuffer>, boolean, undefined> {
  const { mesh } = currentSession();
  for (let start = 0; start < shard.byteLength; start += PIECE_BYTES) {
    const byteLength = Math.min(PIECE_BYTES, shard.byteLength - start);
    // The byte after the piece says whether a rank has failed.
    const message = new Uint8Array(byteLength + 1);
    const piece = message.subarray(0, byteLength);
    if (isWriter) piece.set(shard.header.subarray(start, start + byteLength));
    try {
      if (failures.length === 0) await fillPiece(piece, start, shard, parts, held);
    } catch (error) {
      failures.push(error);
    }
    message[byteLength] = failures.length === 0 ? 0 : 1;
    // Each byte comes from one rank, and is 0 on the others.
    for (const { name } of mesh.axes) {
      await mesh.group(name).allReduce({ bytes: message, dtype: 'u8' }, 'or');
    }
    if (message[byteLength] !== 0) return true;
    yield piece;
  }
  return false;
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
