import type { ShardStatistics } from '@shardwise/parameter-server';
import { z } from 'zod';

/** The message by which the launcher starts a parameter server. */
export interface ServerStart {
  readonly kind: 'start';
  /** The number of this server, and how many servers there are. */
  readonly server: number;
  readonly servers: number;
  /** Whether the following server keeps a copy of this server's range. */
  readonly areReplicated: boolean;
  readonly host: string;
  /** The port to listen on. 0 means any free port. */
  readonly port: number;
  readonly secret: string;
  /** The file of the server's snapshots. */
  readonly snapshotPath: string;
  /** The least time between two snapshots. */
  readonly snapshotEveryMs: number;
  /** Whether the server replaces one that was lost. */
  readonly isAgain: boolean;
  /** Whether the snapshot comes from an earlier run. */
  readonly resumes: boolean;
}

/** The addresses of all servers, so that each one finds the server that keeps its copy. */
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

/** A message of a parameter server to its launcher. */
export type FromServer =
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'stopped'; readonly statistics: ShardStatistics };

const fromServer = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('listening'), port: z.number() }),
  z.object({ kind: z.literal('failed'), reason: z.string() }),
  z.object({ kind: z.literal('stopped'), statistics }),
]) satisfies z.ZodType<FromServer>;

/** Parses a message. Returns undefined for anything that no server of this version sends. */
export function parseServerMessage(value: unknown): FromServer | undefined {
  const parsed = fromServer.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}
