import { allToAll, arange, sendRows, type Tensor, zeros } from '@shardwise/core/extend';
import type { AxisPlace } from '../tensor-parallel/parallel-style.ts';

/**
 * Computes the experts of this rank. Rows are in the order of experts, and `counts` has the number of rows of each
 * expert.
 */
type Compute = (rows: Tensor, counts: Tensor) => Tensor;

/** The number of rows for which ranks reserve room. */
export interface RouteRoom {
  /** The most routes that a rank sends. */
  readonly routes: number;
  /** The most of these routes that go to one expert. */
  readonly most: number;
}

/**
 * Sends rows to the ranks of an axis that have their experts, has them computed there, and sends the results back. Each
 * rank has the same number of experts, in their order. Counts are sent before rows. Every rank takes part in every
 * message, even without rows. The nodes that `meanwhile` builds are computed while rows are on their way. Shape: rows
 * [R, C] in the order of experts, counts i32 [E] -> [R, C].
 */
export function exchangeRoutes(
  rows: Tensor,
  counts: Tensor,
  { routes: most, most: mostOfExpert }: RouteRoom,
  { axis, size }: AxisPlace,
  compute: Compute,
  meanwhile: () => void,
): Tensor {
  const [routes = 0] = rows.shape;
  const own = counts.numel / size;
  const mine = counts.reshape([size, own]);
  // Row r has the numbers of rows that rank r has for each expert of this rank.
  const theirs = allToAll(mine, axis, 0, 0);
  const [sent, received] = [mine.sum([1]), theirs.sum([1])];
  const room = size * Math.min(most, own * mostOfExpert);
  const arrived = sendRows(rows, axis, { sent, received }, room);
  meanwhile();
  const order = expertOfRows(theirs, room).argSort(0);
  const places = zeros([room], 'i32').scatter(0, order, arange(room));
  const computed = compute(arrived.indexSelect(0, order), theirs.sum([0]));
  const back = computed.indexSelect(0, places);
  return sendRows(back, axis, { sent: received, received: sent }, routes);
}

/**
 * Returns the expert of each row. Rows are in the order of ranks, and within a rank in the order of experts. Rows that
 * nobody sent get a number after the last expert. Shape: counts i32 [ranks, experts] -> i32 [rows].
 */
function expertOfRows(counts: Tensor, rows: number): Tensor {
  const [size = 1, own = 1] = counts.shape;
  const ends = counts.flatten().cumsum(0);
  const behind = arange(rows)
    .reshape([rows, 1])
    .ge(ends.reshape([1, size * own]));
  const segment = behind.to('i32').sum([1]);
  const expert = segment.sub(segment.div(own, { roundingMode: 'floor' }).mul(own));
  return segment.lt(size * own).where(expert, own);
}
