import { z } from 'zod';

/** What ranks tell each other beside their calls. `world` counts the groups of all ranks. */
export type Notice =
  /** The world has failed. */
  | {
      readonly kind: 'abort';
      readonly world: number;
      readonly rank?: number | undefined;
      readonly reason: string;
    }
  | GroupNotice
  /** The sender's process ends because of a failure. */
  | { readonly kind: 'exiting' };

export type GroupNotice =
  /** The sender has closed the group, having finished so many collectives. */
  | {
      readonly kind: 'left';
      readonly world: number;
      readonly group: string;
      readonly finished: number;
    }
  /** The sender has issued so many collectives, and waits. */
  | {
      readonly kind: 'waiting';
      readonly world: number;
      readonly group: string;
      readonly issued: number;
    };

const count = z.int().nonnegative();

const schema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('abort'),
    world: count,
    rank: count.optional(),
    reason: z.string(),
  }),
  z.object({ kind: z.literal('left'), world: count, group: z.string(), finished: count }),
  z.object({ kind: z.literal('waiting'), world: count, group: z.string(), issued: count }),
  z.object({ kind: z.literal('exiting') }),
]);

export const MAX_NOTICE_BYTES = 16_384;
const MAX_REASON_LENGTH = 2000;

export function encodeNotice(told: Notice): Uint8Array<ArrayBuffer> {
  const short =
    told.kind === 'abort' ? { ...told, reason: told.reason.slice(0, MAX_REASON_LENGTH) } : told;
  return new TextEncoder().encode(JSON.stringify(short));
}

/** Undefined for bytes that are no notice. */
export function decodeNotice(bytes: Uint8Array): Notice | undefined {
  try {
    return schema.safeParse(JSON.parse(new TextDecoder().decode(bytes))).data;
  } catch {
    return undefined;
  }
}
