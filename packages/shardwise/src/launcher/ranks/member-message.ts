import { z } from 'zod';

/** What a rank that others can lose tells its launcher. */
export type MemberMessage =
  /**
   * The rank waits for a membership. `replicaSize` is the number of ranks that have the state together. It is null if the
   * rank does not go on without one that is lost.
   */
  | { readonly kind: 'ready'; readonly replicaSize: number | null }
  | EnteredMessage
  /** The rank has committed an update, for the first time in a membership. */
  | { readonly kind: 'committed' }
  | BrokenMessage
  /** The ranks cannot go on without each other, for this reason. */
  | { readonly kind: 'bound'; readonly reason: string };

/** The rank has joined the others. `step` is the number of updates of the state that they go on with. */
export interface EnteredMessage {
  readonly kind: 'entered';
  readonly epoch: number;
  readonly step: number;
}

/** The rank cannot reach others of the membership, or was told that one of them cannot. They may still be there. */
export interface BrokenMessage {
  readonly kind: 'broken';
  readonly epoch: number;
  /** The ranks, in the membership, that could not be reached. Empty if the error names none. */
  readonly ranks: readonly number[];
  readonly reason: string;
}

/** The greatest length of a reason. */
export const MAX_CHARACTERS = 4096;
/** More ranks than one launcher starts. */
const MAX_RANKS = 65_536;

const memberMessage = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready'), replicaSize: z.int().min(1).max(MAX_RANKS).nullable() }),
  z.object({
    kind: z.literal('entered'),
    epoch: z.int().nonnegative(),
    step: z.int().nonnegative(),
  }),
  z.object({ kind: z.literal('committed') }),
  z.object({
    kind: z.literal('broken'),
    epoch: z.int().nonnegative(),
    ranks: z.array(z.int().nonnegative()).max(MAX_RANKS),
    reason: z.string().max(MAX_CHARACTERS),
  }),
  z.object({ kind: z.literal('bound'), reason: z.string().max(MAX_CHARACTERS) }),
]);

/** Parses a message. Returns undefined for anything that no rank of this version sends. */
export function parseMemberMessage(value: unknown): MemberMessage | undefined {
  const parsed = memberMessage.safeParse(value);
  return parsed.success ? parsed.data : undefined;
}
