import { dtypes } from '@shardwise/core/spec';
import { peersOf } from '../algorithms/peers.ts';
import type { GroupCall } from '../call/group-call.ts';
import type { Operation } from '../call/record.ts';
import { allReduce, reduceScatter, reduceTo } from './all-reduce.ts';
import type { CallWire, Request } from './mpi-wire.ts';
import type { RankOrderReducer, Reduction } from './rank-order-reducer.ts';
import { partsOf, piecesOf, receiveAll, sendAll, settled, type Steps } from './steps.ts';

/** A piece of a long broadcast is passed on while the next comes. */
const BROADCAST_BYTES = 1 << 20;

/** Carries out a call that all ranks have made. */
export function stepsOf(wire: CallWire, call: GroupCall, reducer: RankOrderReducer): Steps {
  return operations[call.record.operation](wire, call, reducer);
}

const operations: Record<
  Operation,
  (wire: CallWire, call: GroupCall, reducer: RankOrderReducer) => Steps
> = {
  allReduce: (wire, call, reducer) => allReduce(wire, call.input, reducer, reductionOf(call)),
  reduceScatter: (wire, call, reducer) =>
    reduceScatter(wire, call.input, call.output, reducer, reductionOf(call)),
  reduce: (wire, call, reducer) =>
    reduceTo(wire, call.input, rootOf(call), reducer, reductionOf(call)),
  allGather: (wire, { input, output }) => {
    const lengths = Array.from({ length: wire.size }, () => input.byteLength);
    return exchange(
      wire,
      lengths.map(() => input),
      partsOf(output, lengths),
    );
  },
  allToAll: (wire, { record, input, output }) => {
    const elementBytes = record.dtype === undefined ? 1 : dtypes[record.dtype].bytes;
    const inBytes = (elements: readonly number[] = []): readonly number[] =>
      elements.map((count) => count * elementBytes);
    return exchange(
      wire,
      partsOf(input, inBytes(record.splits?.input)),
      partsOf(output, inBytes(record.splits?.output)),
    );
  },
  broadcast: (wire, call) => {
    const root = rootOf(call);
    return broadcast(wire, wire.rank === root ? call.input : call.output, root);
  },
  gather: (wire, call) => {
    const { input, output } = call;
    const root = rootOf(call);
    const lengths = Array.from({ length: wire.size }, () => input.byteLength);
    return exchange(
      wire,
      lengths.map((_, rank) => (rank === root ? input : NOTHING)),
      wire.rank === root ? partsOf(output, lengths) : lengths.map(() => NOTHING),
    );
  },
  scatter: (wire, call) => {
    const { input, output } = call;
    const root = rootOf(call);
    const lengths = Array.from({ length: wire.size }, () => output.byteLength);
    return exchange(
      wire,
      wire.rank === root ? partsOf(input, lengths) : lengths.map(() => NOTHING),
      lengths.map((_, rank) => (rank === root ? output : NOTHING)),
    );
  },
  // When all have told each other that they make these calls, they are done.
  barrier: nothing,
  split: nothing,
};

const NOTHING = new Uint8Array(0);

function* nothing(): Steps {}

/** Sends each rank its part, and receives each rank's; what is empty on both sides is not sent. */
function* exchange(
  wire: CallWire,
  outgoing: readonly Uint8Array[],
  incoming: readonly Uint8Array[],
): Steps {
  const requests: Request[] = [];
  for (const peer of peersOf(wire)) {
    requests.push(...receiveAll(wire, peer, incoming[peer] ?? NOTHING));
    requests.push(...sendAll(wire, peer, outgoing[peer] ?? NOTHING));
  }
  const own = outgoing[wire.rank] ?? NOTHING;
  const target = incoming[wire.rank] ?? NOTHING;
  const isThere = own.buffer === target.buffer && own.byteOffset === target.byteOffset;
  if (!isThere) target.set(own);
  yield* settled(requests);
}

/** The binomial tree of treeBroadcast. */
function* broadcast(wire: CallWire, buffer: Uint8Array, root: number): Steps {
  const { rank, size } = wire;
  const place = (rank - root + size) % size;
  const parentStep = 2 ** Math.floor(Math.log2(Math.max(place, 1)));
  const children: number[] = [];
  for (let step = place === 0 ? 1 : 2 * parentStep; place + step < size; step *= 2) {
    children.push((rank + step) % size);
  }
  const parent = (rank - parentStep + size) % size;
  const pieces = piecesOf(buffer, BROADCAST_BYTES);
  const received = place === 0 ? [] : pieces.map((piece) => wire.receive(parent, piece));
  const sent: Request[] = [];
  for (const [index, piece] of pieces.entries()) {
    yield* settled(received.slice(index, index + 1));
    for (const child of children) sent.push(wire.send(child, piece));
  }
  yield* settled(sent);
}

function reductionOf({ record }: GroupCall): Reduction {
  const { dtype, reduce } = record;
  if (dtype !== undefined && reduce !== undefined) return { dtype, op: reduce };
  throw new TypeError(`${record.operation} without a dtype or a reduction`);
}

function rootOf({ record }: GroupCall): number {
  if (record.root !== undefined) return record.root;
  throw new TypeError(`${record.operation} without a root`);
}
