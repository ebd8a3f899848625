import { allToAll, arange, sendRows, type Tensor, zeros } from '@shardwise/core/extend';
import type { AxisPlace } from '../tensor-parallel/parallel-style.ts';

/** What experts of this rank compute: rows in the order of experts, and how many each expert has. */
type Compute = (rows: Tensor, counts: Tensor) => Tensor;

/** For how many rows ranks keep room. */
export interface RouteRoom {
  /** The most routes that a rank sends. */
  readonly routes: number;
  /** The most of these that one expert has. */
  readonly most: number;
}

/**
 * Rows go to the ranks of an axis that have their experts, are computed there, and come back. Each rank has as many experts as the
 * others, in their order. Counts travel before rows, and every rank takes part in every message, also without rows. What
 * `meanwhile` builds is computed while rows are on their way.
 * Shape: rows [R, C] in the order of experts, counts i32 [E] -> [R, C].
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
  // Row r: how many rows rank r has for each expert of this rank.
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
 * The expert of each row, where rows stand in the order of ranks, and within it of experts; behind the last expert for rows that
 * nobody sent. Shape: counts i32 [ranks, experts] -> i32 [rows].
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
