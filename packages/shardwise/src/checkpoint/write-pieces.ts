import { crc32 } from 'node:zlib';
import { dtypes, elementCount, encodeSafetensorsHeader, type Shape } from '@shardwise/core';
import type { DurableFiles } from './durable-files.ts';
import type { Holding, TensorRange } from './holding.ts';
import { CHECKSUM_BYTES, type Piece } from './state-file.ts';

/** A range that this rank writes, and where its bytes come from. */
export interface OwnPiece extends TensorRange {
  read(): Promise<Uint8Array>;
}

/** A piece as it was written, and of which tensor it is. */
export interface WrittenPiece {
  readonly name: string;
  readonly piece: Piece;
}

export interface WrittenFile {
  readonly byteLength: number;
  readonly pieces: readonly WrittenPiece[];
}

/** The ranges that a rank writes, as views of what it holds. */
export function ownPieces(
  ranges: readonly TensorRange[],
  holdings: readonly Holding[],
): readonly OwnPiece[] {
  const held = Map.groupBy(holdings, ({ name }) => name);
  return ranges.map((range) => {
    const holding = held
      .get(range.name)
      ?.find(({ start, stop }) => start <= range.start && range.stop <= stop);
    if (holding === undefined) throw new RangeError(`no part of ${range.name} to write`);
    const elementBytes = dtypes[range.dtype].bytes;
    const read = async (): Promise<Uint8Array> =>
      (await holding.read()).subarray(
        (range.start - holding.start) * elementBytes,
        (range.stop - holding.start) * elementBytes,
      );
    return { ...range, read };
  });
}

/** Copies the pieces to memory of their own, so that what they are read from may change. */
export async function stagePieces(pieces: readonly OwnPiece[]): Promise<readonly OwnPiece[]> {
  const staged: OwnPiece[] = [];
  for (const piece of pieces) {
    const bytes = new Uint8Array(await piece.read());
    staged.push({ ...piece, read: async () => bytes });
  }
  return staged;
}

/**
 * Writes pieces as a safetensors file of rank `rank`, one in memory at a time: whole tensors under
 * their names, others as `name[start:stop]`.
 */
export async function writePieces(
  files: DurableFiles,
  path: string,
  rank: number,
  pieces: readonly OwnPiece[],
): Promise<WrittenFile> {
  const byEntry = new Map(pieces.map((piece) => [entryName(piece), piece]));
  if (byEntry.size !== pieces.length) throw new RangeError('two tensors of one name');
  const { header, places } = encodeSafetensorsHeader(
    Object.fromEntries(
      [...byEntry].map(([name, piece]) => [name, { dtype: piece.dtype, shape: pieceShape(piece) }]),
    ),
    { format: 'pt' },
  );
  const written: WrittenPiece[] = [];
  let byteLength = header.byteLength;
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield header;
    for (const place of places) {
      const piece = byEntry.get(place.name);
      if (piece === undefined) continue;
      const { name, start, stop } = piece;
      const bytes = await piece.read();
      if (bytes.byteLength !== place.byteLength) {
        throw new RangeError(`${bytes.byteLength} bytes of ${place.name}, not ${place.byteLength}`);
      }
      const { byteOffset } = place;
      const checksums = checksumsOf(bytes);
      written.push({ name, piece: { file: rank, start, stop, byteOffset, checksums } });
      byteLength += bytes.byteLength;
      yield bytes;
    }
  }
  await files.writeFile(path, chunks());
  return { byteLength, pieces: written };
}

function checksumsOf(bytes: Uint8Array): readonly number[] {
  return Array.from({ length: Math.ceil(bytes.byteLength / CHECKSUM_BYTES) }, (_, index) =>
    crc32(bytes.subarray(index * CHECKSUM_BYTES, (index + 1) * CHECKSUM_BYTES)),
  );
}

function isWhole({ shape, start, stop }: TensorRange): boolean {
  return start === 0 && stop === elementCount(shape);
}

function entryName(piece: TensorRange): string {
  const { name, start, stop } = piece;
  return isWhole(piece) ? name : `${name}[${start}:${stop}]`;
}

/** Rows where the piece has whole ones. */
function pieceShape(piece: TensorRange): Shape {
  const { shape, start, stop } = piece;
  if (isWhole(piece)) return shape;
  const [, ...rest] = shape;
  const rowElements = elementCount(rest);
  const hasRows = start % rowElements === 0 && stop % rowElements === 0;
  return hasRows ? [(stop - start) / rowElements, ...rest] : [stop - start];
}
