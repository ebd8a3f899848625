import type { ShardStatistics } from '@shardwise/strategies';
import { z } from 'zod';

/** What the launcher tells a parameter server that it has started. */
export interface ServerStart {
  readonly kind: 'start';
  /** Which of the servers it is, and how many there are. */
  readonly server: number;
  readonly servers: number;
  /** Whether the next one has a copy of its range. */
  readonly areReplicated: boolean;
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  readonly secret: string;
  /** The file of its snapshots. */
  readonly snapshotPath: string;
  /** How long it is from one snapshot to the next, at least. */
  readonly snapshotEveryMs: number;
  /** Whether it takes the place of one that was lost. */
  readonly isAgain: boolean;
  /** Whether the snapshot is that of an earlier run. */
  readonly resumes: boolean;
}

/** Where all servers are, so that each finds the one that has its copy. */
export interface ServerPeers {
  readonly kind: 'peers';
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
}

export type ToServer = ServerStart | ServerPeers | { readonly kind: 'stop' };

const counts = z.record(z.string(), z.number());

const statistics = z.object({
  updates: z.number(),
  duplicates: z.number(),
  late: z.number(),
  receivedBytes: z.number(),
  earlyBytes: z.number(),
  sentBytes: z.number(),
  staleness: counts,
  lead: counts,
  waitedMs: counts,
  isReplicated: z.boolean(),
  clock: z.array(z.tuple([z.number(), z.number()])),
}) satisfies z.ZodType<ShardStatistics>;

/** What a parameter server tells its launcher. */
export type FromServer =
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'stopped'; readonly statistics: ShardStatistics };

const fromServer = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('listening'), port: z.number() }),
  z.object({ kind: z.literal('failed'), reason: z.string() }),
  z.object({ kind: z.literal('stopped'), statistics }),
]) satisfies z.ZodType<FromServer>;

/** The message that a value is; undefined for anything that no server of this version sends. */
export function parseServerMessage(value: unknown): FromServer | undefined {
  const parsed = fromServer.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}
