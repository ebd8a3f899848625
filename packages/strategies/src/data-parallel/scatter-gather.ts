import { type AxisParams, concat, noGrad, sendRecv, type Tensor } from '@shardwise/core/extend';
import type { RowPart } from './row-parts.ts';

/** The rank that scatters batches and gathers outputs. */
export const MASTER = 0;

/** Scatters the master's rows, a part to each rank. Shape: x [B, ..] -> [rows of this rank, ..]. */
export function scatterRows(
  x: Tensor,
  parts: readonly RowPart[],
  { axis, rank }: AxisParams,
): Tensor {
  const rowsOf = ({ start, stop }: RowPart): Tensor => x.slice(0, start, stop);
  const { [rank]: mine = { start: 0, stop: 0 } } = parts;
  // The received rows are kept, because a later run that computes with them must not receive them again.
  if (rank !== MASTER) {
    return sendRecv(rowsOf(mine), axis, route(parts.length, MASTER, rank)).retain();
  }
  parts.forEach((part, to) => {
    if (to !== MASTER) runForOthers(sendRecv(rowsOf(part), axis, route(parts.length, MASTER, to)));
  });
  return rowsOf(mine);
}

/**
 * Gathers all ranks' rows on the master. The result is zeros on the other ranks. The master's gradient is sent back to
 * the ranks, and the gradient on other ranks is dropped. Shape: y [rows of this rank, ..] -> [B, ..].
 */
export function gatherRows(
  y: Tensor,
  parts: readonly RowPart[],
  { axis, rank }: AxisParams,
): Tensor {
  const total = parts.at(-1)?.stop ?? 0;
  const { [rank]: mine = { start: 0, stop: total } } = parts;
  if (rank !== MASTER) {
    const sent = sendRecv(y, axis, route(parts.length, rank, MASTER)).retain();
    const others = y.shape.slice(1).map(() => 0);
    return sent.pad([mine.start, ...others], [total - mine.stop, ...others]);
  }
  const arrived = parts.map(({ start, stop }, from) => {
    if (from === MASTER) return y;
    // These rows arrive on no rank. They only give the result its shape, and the gradient its way back.
    return sendRecv(y.slice(0, 0, stop - start), axis, route(parts.length, from, MASTER)).retain();
  });
  return concat(arrived, 0);
}

/** Returns the destinations for `sendRecv` if only one rank sends, to one other rank. */
function route(ranks: number, from: number, to: number): readonly number[] {
  return Array.from({ length: ranks }, (_, rank) => (rank === from ? to : -1));
}

/** Makes the program run a collective whose result this rank does not need. It keeps one element of the result. */
export function runForOthers(result: Tensor): void {
  if (result.numel === 0) return;
  noGrad(() => result.reshape([result.numel]).slice(0, 0, 1).retain());
}
