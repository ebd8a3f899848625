import type { DType, ReduceOp } from '@shardwise/core/spec';
import { plainReducer, type Reducer } from '../reduce/reducer.ts';
import { peersOf } from './peers.ts';
import type { Cost, PerRank, Reduce, Wire } from './wire.ts';

export function reduceScatterSpecification(inputs: PerRank, reduce: Reduce): PerRank {
  const total = inputs.reduce((sum, row) => sum.map((value, i) => reduce(value, row[i]!)));
  const part = total.length / inputs.length;
  return inputs.map((_, rank) => total.slice(rank * part, (rank + 1) * part));
}

/**
 * Everyone sends part r to rank r, which reduces in rank order; as many bytes as a ring, which
 * could not keep that order.
 *
 *   rank 0  a0 a1 a2          rank 0  a0+b0+c0
 *   rank 1  b0 b1 b2    =>    rank 1  a1+b1+c1
 *   rank 2  c0 c1 c2          rank 2  a2+b2+c2
 */
export async function directReduceScatter(
  wire: Wire,
  input: Uint8Array,
  output: Uint8Array,
  dtype: DType,
  op: ReduceOp,
  reducer: Reducer = plainReducer,
): Promise<void> {
  const partBytes = output.byteLength;
  const partOf = (rank: number): Uint8Array =>
    input.subarray(rank * partBytes, (rank + 1) * partBytes);
  const sources = Array.from({ length: wire.size }, (_, rank) =>
    rank === wire.rank ? partOf(rank) : new Uint8Array(partBytes),
  );
  const peers = peersOf(wire);
  await Promise.all([
    ...peers.map((peer) => wire.send(peer, partOf(peer))),
    ...peers.map((peer) => wire.recv(peer, sources[peer]!)),
  ]);
  reducer.reduce(sources, output, dtype, op);
}

export const directReduceScatterCost: Cost = {
  steps: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size - 1) * bytes,
};
