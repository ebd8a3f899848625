import { z } from 'zod';
import type { ServeOptions } from '../serve-options.ts';

/** What the process of a replica is told: what to serve, and later to end. */
export type ToReplica =
  | { readonly kind: 'serve'; readonly options: ServeOptions }
  | { readonly kind: 'stop' };

/** What the process of a replica says: that it listens, or why it does not. */
export type FromReplica =
  | { readonly kind: 'listening'; readonly url: string; readonly summary: string }
  | { readonly kind: 'failed'; readonly reason: string };

const fromReplica: z.ZodType<FromReplica> = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('listening'), url: z.string(), summary: z.string() }),
  z.object({ kind: z.literal('failed'), reason: z.string() }),
]);

/** Undefined for what is no message of a replica. */
export function parseReplicaMessage(value: unknown): FromReplica | undefined {
  return fromReplica.safeParse(value).data;
}
