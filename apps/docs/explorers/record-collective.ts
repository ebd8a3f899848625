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

/** Algorithms of each operation; those named `hierarchical` are of several hosts. */
export const operations = {
  allReduce: ['ring', 'halving-doubling', 'two-phase', 'direct', 'hierarchical'],
  allGather: ['ring', 'bruck', 'hierarchical'],
  broadcast: ['tree', 'chain', 'hierarchical'],
  reduceScatter: ['ring', 'direct', 'hierarchical'],
} as const;

export type OperationName = keyof typeof operations;

/** The algorithms of an operation that so many hosts have. */
export function algorithmsOf(operation: OperationName, hosts: number): readonly string[] {
  return operations[operation].filter((name) => name !== 'hierarchical' || hosts > 1);
}

/** The host of each rank: so many hosts of as equal sizes as can be, in rank order. */
export function hostsOf(ranks: number, hosts: number): readonly number[] {
  return Array.from({ length: ranks }, (_, rank) => Math.floor((rank * hosts) / ranks));
}

/** What all ranks of a recording may hold at once, on their way to each other. */
const MOST_BYTES = 2 ** 30;

export interface Recording {
  readonly operation: OperationName;
  readonly algorithm: string;
  /** Bytes of the whole. */
  readonly bytes: number;
  /** The host of each rank. */
  readonly hosts: readonly number[];
}

/** Runs a collective on a group of ranks in this thread, and returns every message. Throws RangeError for more than a page has room for. */
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
  /** Of messages under way from one rank to another, the rounds in which they were sent. */
  const underWay = new Map<string, number[]>();
  const groups = createLoopbackTransports(ranks).map((transport) => {
    /** For each tag, the round of the last message that was received: messages wait for those of lower tags and their own. */
    const received = new Map<number, number>();
    const recording: Transport = {
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

/** Between ranks. */
export interface Link {
  /** Of a message. */
  readonly latencyMs: number;
  readonly bytesPerSecond: number;
}

export interface Network {
  /** The host of each rank. */
  readonly hosts: readonly number[];
  /** Each rank has one to the other ranks of its host. */
  readonly inside: Link;
  /** Each host has one to the other hosts, which its ranks share. */
  readonly between: Link;
}

/** α + β · bytes of each round: the latency of its slowest message, and the bytes of the link that sends or receives longest. */
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

/** The most bytes that one rank sends, or one host of `ownerOf`. */
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
