import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import type { Transport } from '@shardwise/core/spec';

/** A message that a rank of a real group has sent. */
export interface RecordedMessage {
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
  /** How many messages had to arrive one after the other before it could be sent, and one. */
  readonly round: number;
}

export const operations = {
  allReduce: ['ring', 'halving-doubling', 'two-phase', 'direct'],
  allGather: ['ring', 'bruck'],
  broadcast: ['tree', 'chain'],
  reduceScatter: ['ring', 'direct'],
} as const;

export type OperationName = keyof typeof operations;

/** Runs a collective on a group of ranks in this thread, and returns every message. */
export async function recordCollective(
  operation: OperationName,
  algorithm: string,
  ranks: number,
  bytes: number,
): Promise<readonly RecordedMessage[]> {
  const messages: RecordedMessage[] = [];
  /** Of messages under way from one rank to another, the rounds in which they were sent. */
  const underWay = new Map<string, number[]>();
  const groups = createLoopbackTransports(ranks).map((transport) => {
    let received = 0;
    const recording: Transport = {
      rank: transport.rank,
      size: transport.size,
      send: (to, tag, message) => {
        const round = received + 1;
        messages.push({ from: transport.rank, to, bytes: message.byteLength, round });
        const key = `${transport.rank} ${to} ${tag}`;
        underWay.set(key, [...(underWay.get(key) ?? []), round]);
        return transport.send(to, tag, message);
      },
      recv: async (from, tag, message) => {
        await transport.recv(from, tag, message);
        received = Math.max(
          received,
          underWay.get(`${from} ${transport.rank} ${tag}`)?.shift() ?? 0,
        );
      },
      close: (reason) => transport.close(reason),
    };
    return createGroup(recording, { verify: false, algorithm: `${operation}=${algorithm}` });
  });
  const elements = Math.max(1, Math.round(bytes / 4 / ranks)) * ranks;
  const typed = (count: number) => ({ bytes: new Uint8Array(4 * count), dtype: 'i32' }) as const;
  await Promise.all(
    groups.map((group) => {
      if (operation === 'allReduce') return group.allReduce(typed(elements), 'sum');
      if (operation === 'broadcast') return group.broadcast(typed(elements), 0);
      if (operation === 'allGather')
        return group.allGather(typed(elements / ranks), typed(elements));
      return group.reduceScatter(typed(elements), typed(elements / ranks), 'sum');
    }),
  );
  for (const group of groups) group.close();
  return messages.toSorted((a, b) => a.round - b.round || a.from - b.from || a.to - b.to);
}

/**
 * α + β · bytes for the rank of each round that sends or receives most, messages of one rank after each other.
 * `latencyMs` is of a message.
 */
export function timeOf(
  messages: readonly RecordedMessage[],
  link: { readonly latencyMs: number; readonly bytesPerSecond: number },
): number {
  let total = 0;
  for (const round of Map.groupBy(messages, ({ round }) => round).values()) {
    const sent = Map.groupBy(round, ({ from }) => from);
    const got = Map.groupBy(round, ({ to }) => to);
    const most = Math.max(
      ...[...sent.values(), ...got.values()].map((own) =>
        own.reduce((sum, { bytes }) => sum + bytes, 0),
      ),
    );
    total += link.latencyMs + (1000 * most) / link.bytesPerSecond;
  }
  return total;
}
