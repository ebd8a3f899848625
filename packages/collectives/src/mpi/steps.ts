import { MAX_MESSAGE_BYTES, type CallWire, type Request } from './mpi-wire.ts';

/** Work that waits for messages: it yields where they have not come, and is resumed to look again. */
export type Steps = Generator<undefined, void>;

export function* settled(requests: Iterable<Request>): Steps {
  for (const request of requests) while (!request.isDone()) yield;
}

export function sendAll(wire: CallWire, to: number, bytes: Uint8Array): readonly Request[] {
  return piecesOf(bytes, MAX_MESSAGE_BYTES).map((piece) => wire.send(to, piece));
}

export function receiveAll(wire: CallWire, from: number, bytes: Uint8Array): readonly Request[] {
  return piecesOf(bytes, MAX_MESSAGE_BYTES).map((piece) => wire.receive(from, piece));
}

/** All of `pieceBytes`, but the last; none of nothing. */
export function piecesOf(bytes: Uint8Array, pieceBytes: number): readonly Uint8Array[] {
  const count = Math.ceil(bytes.byteLength / pieceBytes);
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * pieceBytes, (index + 1) * pieceBytes),
  );
}

/** `bytes` cut where they have the lengths that are given, in bytes. */
export function partsOf(bytes: Uint8Array, lengths: readonly number[]): readonly Uint8Array[] {
  let start = 0;
  return lengths.map((byteLength) => {
    const part = bytes.subarray(start, start + byteLength);
    start += byteLength;
    return part;
  });
}
