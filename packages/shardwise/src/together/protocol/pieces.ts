import { PIECE_BYTES } from './limits.ts';

/** What data is: what a member has learned in a round, or the state after some rounds. */
type DataKind = 'update' | 'state';

/** A stretch of data on its way between members. The coordinator passes it on. */
export interface Piece {
  readonly kind: DataKind;
  /** The round of an update, or the number of rounds that led to a state. */
  readonly round: number;
  /** The member that sends an update, or the one that a state is for. */
  readonly member: number;
  /** The place of the first byte in the data. */
  readonly offset: number;
  readonly bytes: Uint8Array;
}

const kinds = ['update', 'state'] as const satisfies readonly DataKind[];

/** A frame is: the kind in 4 bytes, the round in 4, the member in 4, the offset in 8, and the bytes. Little-endian. */
const HEADER_BYTES = 20;

export function encodePiece({ kind, round, member, offset, bytes }: Piece): Uint8Array {
  const frame = new Uint8Array(HEADER_BYTES + bytes.byteLength);
  const view = new DataView(frame.buffer);
  view.setUint32(0, kinds.indexOf(kind), true);
  view.setUint32(4, round, true);
  view.setUint32(8, member, true);
  view.setBigUint64(12, BigInt(offset), true);
  frame.set(bytes, HEADER_BYTES);
  return frame;
}

/** Reads a frame, whose bytes the piece shares. Returns null for anything else than a piece with data. */
export function decodePiece(frame: Uint8Array): Piece | null {
  const length = frame.byteLength - HEADER_BYTES;
  if (length < 1 || length > PIECE_BYTES) return null;
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const kind = kinds[view.getUint32(0, true)];
  const offset = view.getBigUint64(12, true);
  if (kind === undefined || offset > BigInt(Number.MAX_SAFE_INTEGER)) return null;
  return {
    kind,
    round: view.getUint32(4, true),
    member: view.getUint32(8, true),
    offset: Number(offset),
    bytes: frame.subarray(HEADER_BYTES),
  };
}

/** Cuts data into frames. */
export function* framesOf(
  { kind, round, member }: Pick<Piece, 'kind' | 'round' | 'member'>,
  data: Uint8Array,
  pieceBytes: number = PIECE_BYTES,
): Generator<Uint8Array> {
  for (let offset = 0; offset < data.byteLength; offset += pieceBytes) {
    const bytes = data.subarray(offset, offset + pieceBytes);
    yield encodePiece({ kind, round, member, offset, bytes });
  }
}
