import type { ClusterLink } from '../cluster/cluster.ts';
import { fitConstants } from './least-squares.ts';

/** A message or a collective among ranks, and the time that it took. */
export interface MeasuredMessage {
  /** The operation, such as `allReduce`, `allGather` or `sendRecv`. */
  readonly name: string;
  /** The bytes of the whole: of what is reduced, or of what all ranks have gathered. */
  readonly bytes: number;
  readonly ranks: number;
  readonly seconds: number;
}

/** How often the whole goes around a ring: an all-reduce is a reduce-scatter and an all-gather. */
const passes: ReadonlyMap<string, number> = new Map([
  ['allReduce', 2],
  ['allGather', 1],
  ['reduceScatter', 1],
  ['allToAll', 1],
  ['broadcast', 1],
  ['reduce', 1],
]);

/**
 * Fits the latency and the bandwidth of the link between ranks to measured messages, as if ranks were in a ring. If all are
 * small, their time says nothing of the bandwidth but a least one.
 */
export function linkFromMessages(messages: readonly MeasuredMessage[]): ClusterLink {
  const rows = messages.map(({ name, bytes, ranks }) => {
    const rounds = (passes.get(name) ?? 1) * (name === 'sendRecv' ? 1 : ranks - 1);
    return [rounds, name === 'sendRecv' ? bytes : (rounds * bytes) / ranks];
  });
  const seconds = messages.map((message) => message.seconds);
  const [latencySeconds = 0, perByte = 0] = fitConstants(rows, seconds);
  const sent = rows.reduce((sum, [, own = 0]) => sum + own, 0);
  const total = seconds.reduce((sum, own) => sum + own, 0);
  return { latencySeconds, bytesPerSecond: perByte > 0 ? 1 / perByte : sent / total };
}
