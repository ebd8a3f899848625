import { crc32 } from 'node:zlib';
import {
  blockShape,
  dtypes,
  elementCount,
  encodeSafetensorsHeader,
  sameBlock,
  type Shape,
} from '@shardwise/core/extend';
import type { DurableFiles } from './durable-files.ts';
import { formatRegion } from './format-region.ts';
import type { Holding, TensorRegion } from './holding.ts';
import { CHECKSUM_BYTES, type Piece } from './state-file.ts';

/** A region that this rank writes, and where its bytes come from. */
export interface OwnPiece extends TensorRegion {
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

/** The regions that a rank writes, as views of what it holds. */
export function ownPieces(
  regions: readonly TensorRegion[],
  holdings: readonly Holding[],
): readonly OwnPiece[] {
  const held = Map.groupBy(holdings, ({ name }) => name);
  return regions.map((region) => {
    const holding = held
      .get(region.name)
      ?.find(
        ({ block, start, stop }) =>
          sameBlock(block, region.block) && start <= region.start && region.stop <= stop,
      );
    if (holding === undefined) throw new RangeError(`no part of ${region.name} to write`);
    const elementBytes = dtypes[region.dtype].bytes;
    const read = async (): Promise<Uint8Array> =>
      (await holding.read()).subarray(
        (region.start - holding.start) * elementBytes,
        (region.stop - holding.start) * elementBytes,
      );
    return { ...region, read };
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
 * their names, others as formatRegion names them.
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
      const { name, block, start, stop } = piece;
      const bytes = await piece.read();
      if (bytes.byteLength !== place.byteLength) {
        throw new RangeError(`${bytes.byteLength} bytes of ${place.name}, not ${place.byteLength}`);
      }
      const { byteOffset } = place;
      const checksums = checksumsOf(bytes);
      written.push({ name, piece: { file: rank, block, start, stop, byteOffset, checksums } });
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

function entryName(piece: TensorRegion): string {
  return `${piece.name}${formatRegion(piece.shape, piece)}`;
}

/** That of the block, or rows of it where the piece has whole ones. */
function pieceShape({ block, start, stop }: TensorRegion): Shape {
  const shape = blockShape(block);
  if (start === 0 && stop === elementCount(shape)) return shape;
  const [, ...rest] = shape;
  const rowElements = elementCount(rest);
  const hasRows = start % rowElements === 0 && stop % rowElements === 0;
  return hasRows ? [(stop - start) / rowElements, ...rest] : [stop - start];
}
