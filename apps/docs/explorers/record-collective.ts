import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import type { Transport } from '@shardwise/core/spec';

/** A message that a rank of a real group has sent. */
export interface RecordedMessage {
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
  /**
   * The round of the message, from 1: one more than the number of messages that had to arrive one after the other
   * before it could be sent.
   */
  readonly round: number;
}

/** The algorithms of each operation. Those named `hierarchical` need several hosts. */
export const operations = {
  allReduce: ['ring', 'halving-doubling', 'two-phase', 'direct', 'hierarchical'],
  allGather: ['ring', 'bruck', 'hierarchical'],
  broadcast: ['tree', 'chain', 'hierarchical'],
  reduceScatter: ['ring', 'direct', 'hierarchical'],
} as const;

export type OperationName = keyof typeof operations;

/** Returns the algorithms that an operation has with this number of hosts. */
export function algorithmsOf(operation: OperationName, hosts: number): readonly string[] {
  return operations[operation].filter((name) => name !== 'hierarchical' || hosts > 1);
}

/** Returns the host of each rank. Hosts are in rank order, and their sizes are as equal as possible. */
export function hostsOf(ranks: number, hosts: number): readonly number[] {
  return Array.from({ length: ranks }, (_, rank) => Math.floor((rank * hosts) / ranks));
}

/** The greatest number of bytes that all ranks of a recording together may hold, including messages on their way. */
const MOST_BYTES = 2 ** 30;

export interface Recording {
  readonly operation: OperationName;
  readonly algorithm: string;
  /** The bytes of the whole. */
  readonly bytes: number;
  /** The host of each rank. */
  readonly hosts: readonly number[];
}

/**
 * Runs a collective on a group of ranks in this thread, and returns every message. Throws RangeError if a page does not
 * have enough memory.
 */
export async function recordCollective({
  operation,
  algorithm,
  bytes,
  hosts,
}: Recording): Promise<readonly RecordedMessage[]> {
  const ranks = hosts.length;
  if (ranks ** 2 * bytes > MOST_BYTES) {
    throw new RangeError(
      `${ranks} ranks that send ${bytes} bytes to each other need more memory than this page takes. Choose fewer ranks or bytes.`,
    );
  }
  const messages: RecordedMessage[] = [];
  /** For each sender, receiver and tag, the rounds of the messages that have not arrived yet. */
  const underWay = new Map<string, number[]>();
  const groups = createLoopbackTransports(ranks).map((transport) => {
    /**
     * For each tag, the round of the last message that was received. A message waits for received messages of lower
     * tags and of its own.
     */
    const received = new Map<number, number>();
    const recording: Transport = {
      specificationVersion: 1,
      rank: transport.rank,
      size: transport.size,
      send: (to, tag, message) => {
        const before = [...received].filter(([each]) => each <= tag).map(([, last]) => last);
        const round = 1 + Math.max(0, ...before);
        messages.push({ from: transport.rank, to, bytes: message.byteLength, round });
        const key = `${transport.rank} ${to} ${tag}`;
        underWay.set(key, [...(underWay.get(key) ?? []), round]);
        return transport.send(to, tag, message);
      },
      recv: async (from, tag, message) => {
        await transport.recv(from, tag, message);
        const round = underWay.get(`${from} ${transport.rank} ${tag}`)?.shift() ?? 0;
        received.set(tag, Math.max(received.get(tag) ?? 0, round));
      },
      close: (reason) => transport.close(reason),
    };
    return createGroup(recording, {
      verify: false,
      algorithm: `${operation}=${algorithm}`,
      hosts,
    });
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

/** A link between ranks or hosts. */
export interface Link {
  /** The latency of a message. */
  readonly latencyMs: number;
  readonly bytesPerSecond: number;
}

export interface Network {
  /** The host of each rank. */
  readonly hosts: readonly number[];
  /** The link of each rank to the other ranks of its host. */
  readonly inside: Link;
  /** The link of each host to the other hosts. The ranks of the host share it. */
  readonly between: Link;
}

/**
 * Returns the sum over rounds of α + β · bytes: the latency of the slowest message, and the time of the link that sends
 * or receives longest.
 */
export function timeOf(
  messages: readonly RecordedMessage[],
  { hosts, inside, between }: Network,
): number {
  let total = 0;
  for (const round of Map.groupBy(messages, ({ round: each }) => each).values()) {
    const far = round.filter((message) => crosses(message, hosts));
    const near = round.filter((message) => !crosses(message, hosts));
    total += Math.max(
      roundMs(near, inside, (rank) => rank),
      roundMs(far, between, (rank) => hosts[rank] ?? rank),
    );
  }
  return total;
}

/** Whether a message leaves its host. */
export function crosses({ from, to }: RecordedMessage, hosts: readonly number[]): boolean {
  return hosts[from] !== hosts[to];
}

/** Returns the most bytes that one rank sends, or one host if `ownerOf` returns the host of a rank. */
export function mostSent(
  messages: readonly RecordedMessage[],
  ownerOf = (rank: number): number => rank,
): number {
  return Math.max(0, ...sumsBy(messages, ({ from }) => ownerOf(from)));
}

function roundMs(
  messages: readonly RecordedMessage[],
  { latencyMs, bytesPerSecond }: Link,
  ownerOf: (rank: number) => number,
): number {
  if (messages.length === 0) return 0;
  const most = Math.max(
    ...sumsBy(messages, ({ from }) => ownerOf(from)),
    ...sumsBy(messages, ({ to }) => ownerOf(to)),
  );
  return latencyMs + (1000 * most) / bytesPerSecond;
}

function sumsBy(
  messages: readonly RecordedMessage[],
  keyOf: (message: RecordedMessage) => number,
): readonly number[] {
  return [...Map.groupBy(messages, keyOf).values()].map((own) =>
    own.reduce((sum, { bytes }) => sum + bytes, 0),
  );
}
