import { dtypes } from '@shardwise/core/spec';
import { peersOf } from '../algorithms/peers.ts';
import type { CallWire, Request } from './mpi-wire.ts';
import type { RankOrderReducer, Reduction } from './rank-order-reducer.ts';
import { partsOf, piecesOf, settled, type Steps } from './steps.ts';

/** Up to here a message costs more by being one than by its bytes. */
const DIRECT_BYTES = 16 * 1024;
/** What is reduced at a time should still be in the cache; but short slices go whole. */
const PIECE_BYTES = 256 * 1024;
const WHOLE_BYTES = 1024 * 1024;
/** Pieces on their way at a time. */
const AHEAD = 4;

/** Rank r reduces slice r of all ranks, then gives it to all; short buffers everyone reduces whole. */
export function* allReduce(
  wire: CallWire,
  buffer: Uint8Array,
  reducer: RankOrderReducer,
  reduction: Reduction,
): Steps {
  if (wire.size === 1 || buffer.byteLength <= DIRECT_BYTES) {
    yield* reduceWhole(wire, buffer, reducer, reduction);
    return;
  }
  const lengths = sliceLengths(buffer, wire.size, reduction);
  const slices = cutAll(partsOf(buffer, lengths));
  const passed: Request[] = [];
  yield* reduceSlices(wire, slices, slices[wire.rank] ?? [], reducer, reduction, (index) => {
    for (const peer of peersOf(wire)) {
      const mine = slices[wire.rank]?.[index];
      const theirs = slices[peer]?.[index];
      // A message that nobody awaits yet takes longer.
      if (theirs !== undefined) passed.push(wire.receive(peer, theirs, 1));
      if (mine !== undefined) passed.push(wire.send(peer, mine, 1));
    }
  });
  yield* settled(passed);
}

/** Shape: input [W*n] -> output [n]. Everyone sends part r to rank r, which reduces. */
export function* reduceScatter(
  wire: CallWire,
  input: Uint8Array,
  output: Uint8Array,
  reducer: RankOrderReducer,
  reduction: Reduction,
): Steps {
  const lengths = Array.from({ length: wire.size }, () => output.byteLength);
  const slices = cutAll(partsOf(input, lengths));
  const [results = []] = cutAll([output]);
  yield* reduceSlices(wire, slices, results, reducer, reduction, () => {});
}

/** Everyone sends to root, which reduces. */
export function* reduceTo(
  wire: CallWire,
  input: Uint8Array,
  root: number,
  reducer: RankOrderReducer,
  reduction: Reduction,
): Steps {
  const slices = cutAll(
    Array.from({ length: wire.size }, (_, rank) => (rank === root ? input : NOTHING)),
  );
  yield* reduceSlices(wire, slices, slices[wire.rank] ?? [], reducer, reduction, () => {});
}

/**
 * By rank, the pieces that it is to reduce; this rank's results go to `destination`. `onReduced` is
 * told when the pieces of an index are no longer needed, and this rank's is reduced.
 */
function* reduceSlices(
  wire: CallWire,
  slices: readonly (readonly Uint8Array[])[],
  destination: readonly Uint8Array[],
  reducer: RankOrderReducer,
  reduction: Reduction,
  onReduced: (index: number) => void,
): Steps {
  const own = slices[wire.rank] ?? [];
  const peers = peersOf(wire);
  const post = (index: number): Posted => {
    const mine = own[index];
    const sources = Array.from({ length: mine === undefined ? 0 : wire.size }, (_, rank) =>
      rank === wire.rank && mine !== undefined ? mine : reducer.borrow(mine?.byteLength ?? 0),
    );
    const requests: Request[] = [];
    for (const peer of peers) {
      const source = sources[peer];
      const theirs = slices[peer]?.[index];
      if (source !== undefined) requests.push(wire.receive(peer, source));
      if (theirs !== undefined) requests.push(wire.send(peer, theirs));
    }
    return { sources, requests };
  };
  const count = Math.max(...slices.map((pieces) => pieces.length));
  const posted: Posted[] = [];
  for (let index = 0; index < count; index++) {
    while (posted.length < Math.min(count, index + AHEAD)) posted.push(post(posted.length));
    const { sources, requests } = posted[index] ?? { sources: [], requests: [] };
    yield* settled(requests);
    const target = destination[index];
    if (target !== undefined) reducer.reduce(sources, wire.rank, target, reduction);
    for (const peer of peers) {
      const source = sources[peer];
      if (source !== undefined) reducer.giveBack(source);
    }
    onReduced(index);
  }
}

interface Posted {
  /** By rank, its values of this rank's piece; none where there is no such piece. */
  readonly sources: readonly Uint8Array[];
  readonly requests: readonly Request[];
}

function* reduceWhole(
  wire: CallWire,
  buffer: Uint8Array,
  reducer: RankOrderReducer,
  reduction: Reduction,
): Steps {
  const sources = Array.from({ length: wire.size }, (_, rank) =>
    rank === wire.rank ? buffer : reducer.borrow(buffer.byteLength),
  );
  const requests: Request[] = [];
  for (const peer of peersOf(wire)) {
    requests.push(wire.receive(peer, sources[peer] ?? buffer), wire.send(peer, buffer));
  }
  yield* settled(requests);
  reducer.reduce(sources, wire.rank, buffer, reduction);
  for (const peer of peersOf(wire)) reducer.giveBack(sources[peer] ?? buffer);
}

const NOTHING = new Uint8Array(0);

/** In pieces of one size, which depends on the longest slice only: the same on all ranks. */
function cutAll(slices: readonly Uint8Array[]): readonly (readonly Uint8Array[])[] {
  const longest = Math.max(...slices.map(({ byteLength }) => byteLength));
  const pieceBytes = longest <= WHOLE_BYTES ? WHOLE_BYTES : PIECE_BYTES;
  return slices.map((slice) => piecesOf(slice, pieceBytes));
}

function sliceLengths(buffer: Uint8Array, size: number, { dtype }: Reduction): readonly number[] {
  const { bytes } = dtypes[dtype];
  const elements = buffer.byteLength / bytes;
  return Array.from(
    { length: size },
    (_, rank) =>
      (Math.floor(((rank + 1) * elements) / size) - Math.floor((rank * elements) / size)) * bytes,
  );
}
