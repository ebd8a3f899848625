import type { DType, ReduceOp } from '@shardwise/core/spec';
import { plainReducer, type Reducer } from '../reduce/reducer.ts';
import { peersOf } from './peers.ts';
import type { Cost, PerRank, Reduce, Wire } from './wire.ts';

export function reduceSpecification(inputs: PerRank, root: number, reduce: Reduce): PerRank {
  const total = inputs.reduce((sum, row) => sum.map((value, i) => reduce(value, row[i]!)));
  return inputs.map((own, rank) => (rank === root ? total : own));
}

/**
 * Everyone sends to root, which reduces in rank order.
 *
 *   rank 0  a          rank 0  a+b+c
 *   rank 1  b    =>    rank 1  b
 *   rank 2  c          rank 2  c
 */
export async function directReduce(
  wire: Wire,
  buffer: Uint8Array,
  root: number,
  dtype: DType,
  op: ReduceOp,
  reducer: Reducer = plainReducer,
): Promise<void> {
  if (wire.rank !== root) {
    await wire.send(root, buffer);
    return;
  }
  const sources = Array.from({ length: wire.size }, (_, rank) =>
    rank === root ? buffer : new Uint8Array(buffer.byteLength),
  );
  await Promise.all(peersOf(wire).map((peer) => wire.recv(peer, sources[peer]!)));
  reducer.reduce(sources, buffer, dtype, op);
}

export const directReduceCost: Cost = {
  steps: (size) => (size > 1 ? 1 : 0),
  bytesPerRank: (size, bytes) => (size > 1 ? bytes : 0),
};
