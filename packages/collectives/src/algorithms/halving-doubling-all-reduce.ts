import { dtypes } from '@shardwise/core/spec';
import type { Communicator } from './communicator.ts';
import type { Cost } from './cost.ts';
import { addPartials, asPartial, partialBytes, type Reduction } from './partial-sums.ts';

/**
 * Pairs of ranks exchange and add halves of the values, then quarters, and so on, until each rank has the sum
 * of one slice. Then they give the sums back the same way. Each half takes log2(P) rounds (Rabenseifner, 2004).
 * If P is no power of two, the first ranks are joined in pairs, and one of each pair takes part for both.
 * Values are not added in rank order. Specification: allReduceSpecification.
 *
 *   rank 0  a0 a1 a2 a3   a0+c0 a1+c1 .  .       Σ0 .  .  .        Σ0 Σ1 Σ2 Σ3
 *   rank 1  b0 b1 b2 b3   b0+d0 b1+d1 .  .   =>  .  Σ1 .  .   =>   Σ0 Σ1 Σ2 Σ3
 *   rank 2  c0 c1 c2 c3   .  .  a2+c2 a3+c3      .  .  Σ2 .        Σ0 Σ1 Σ2 Σ3
 *   rank 3  d0 d1 d2 d3   .  .  b2+d2 b3+d3      .  .  .  Σ3       Σ0 Σ1 Σ2 Σ3
 */
export async function halvingDoublingAllReduce(
  communicator: Communicator,
  buffer: Uint8Array,
  reduction: Reduction,
): Promise<void> {
  const { rank, size } = communicator;
  const { dtype, op, reducer } = reduction;
  const core = 2 ** Math.floor(Math.log2(size));
  const excess = size - core;
  const isPaired = rank < 2 * excess;
  const own = asPartial(reduction, buffer);
  if (isPaired && rank % 2 === 0) {
    await Promise.all([communicator.send(rank + 1, own), communicator.recv(rank + 1, buffer, 1)]);
    if (own !== buffer) reducer.giveBack(own);
    return;
  }
  const receiveAndAdd = async (from: number, into: Uint8Array): Promise<void> => {
    const received = reducer.borrow(into.byteLength);
    await communicator.recv(from, received);
    addPartials(reduction, into, received);
    reducer.giveBack(received);
  };
  if (isPaired) await receiveAndAdd(rank - 1, own);

  const place = isPaired ? (rank - 1) / 2 : rank - excess;
  const rankAt = (other: number): number => (other < excess ? 2 * other + 1 : other + excess);
  const elementBytes = dtypes[dtype].bytes;
  const sliceElements = Math.ceil(buffer.byteLength / elementBytes / core);
  /**
   * The slices of the result that the rank at place `other` works on while groups of `width` ranks share the
   * values.
   */
  const blockOf = (other: number, width: number): Uint8Array => {
    const first = Math.floor(other / width) * width;
    const sliceBytes = sliceElements * elementBytes;
    return buffer.subarray(first * sliceBytes, (first + width) * sliceBytes);
  };
  const partialOf = (other: number, width: number): Uint8Array => {
    const { byteOffset, byteLength } = blockOf(other, width);
    const start = partialBytes(dtype, byteOffset - buffer.byteOffset);
    return own.subarray(start, start + partialBytes(dtype, byteLength));
  };
  for (let width = core / 2; width >= 1; width /= 2) {
    const partner = place ^ width;
    const kept = partialOf(place, width);
    const sending = communicator.send(rankAt(partner), partialOf(partner, width));
    await Promise.all([sending, receiveAndAdd(rankAt(partner), kept)]);
  }
  const mine = { partial: partialOf(place, 1), sources: [], dtype, op, total: size };
  if (own !== buffer || op === 'avg') reducer.fold(mine, blockOf(place, 1));
  for (let width = 1; width < core; width *= 2) {
    const partner = place ^ width;
    await Promise.all([
      communicator.send(rankAt(partner), blockOf(place, width), 1),
      communicator.recv(rankAt(partner), blockOf(partner, width), 1),
    ]);
  }
  if (isPaired) await communicator.send(rank - 1, buffer, 1);
  if (own !== buffer) reducer.giveBack(own);
}

export const halvingDoublingAllReduceCost: Cost = {
  rounds: (size) => {
    const core = 2 ** Math.floor(Math.log2(size));
    return 2 * Math.log2(core) + (size > core ? 2 : 0);
  },
  bytesPerRank: (size, bytes) => {
    const core = 2 ** Math.floor(Math.log2(size));
    return (2 * (core - 1) * bytes) / core + (size > core ? bytes : 0);
  },
};
