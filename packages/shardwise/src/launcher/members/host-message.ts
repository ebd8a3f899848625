import { z } from 'zod';
import { decodeError, encodeError } from '../processes/error-data.ts';
import { parseMemberMessage, type MemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import type { RankEnd } from '../ranks/rank-handle.ts';
import { parseRankMessage, type RankMessage } from '../../run-state/run-message.ts';

/** What the launcher that leads tells the one of another host. */
export type ToHost =
  | { readonly kind: 'start'; readonly rank: number; readonly restarts: number }
  | { readonly kind: 'order'; readonly rank: number; readonly order: LauncherOrder }
  | { readonly kind: 'terminate'; readonly rank: number }
  | Dismissal;

/** The host counts as lost, for this reason: its ranks are to end. */
export interface Dismissal {
  readonly kind: 'dismiss';
  readonly reason: string;
  /** Whether it is to leave the run. Otherwise it may come anew. */
  readonly isFinal: boolean;
}

/** What a launcher tells the one that leads of one of its ranks. */
export interface FromHost {
  readonly rank: number;
  /** How many ranks were started before it in its place. One of them may say something late. */
  readonly restarts: number;
  readonly told:
    | { readonly kind: 'message'; readonly message: RankMessage }
    | { readonly kind: 'member'; readonly message: MemberMessage }
    | { readonly kind: 'doomed'; readonly reason: string }
    | { readonly kind: 'end'; readonly end: RankEnd }
    /** Another rank may start in its place. */
    | { readonly kind: 'closed' };
}

const REPORT_DELAY_MS = 100;

/** How long a message may wait for others that go with it. Nobody waits for reports of steps, and there are many. */
export function delayOf({ told }: FromHost): number {
  const isReport =
    told.kind === 'message' && (told.message.kind === 'step' || told.message.kind === 'timeline');
  return isReport ? REPORT_DELAY_MS : 0;
}

/** The texts of errors that have passed through several ranks are long. */
const MAX_CHARACTERS = 65_536;
/** More ranks than one run has. */
const MAX_RANKS = 1 << 20;

const rank = z.int().min(0).max(MAX_RANKS);
const count = z.int().nonnegative();
const text = z.string().max(MAX_CHARACTERS);

const order: z.ZodType<LauncherOrder> = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('stop') }),
  z.object({ kind: z.literal('abort'), rank: rank.optional(), reason: text }),
  z.object({
    kind: z.literal('membership'),
    epoch: count,
    place: z
      .object({
        rank,
        worldSize: z.int().min(1).max(MAX_RANKS),
        replicaSize: z.int().min(1).max(MAX_RANKS),
        hosts: z.array(count).max(MAX_RANKS),
      })
      .optional(),
    lost: text.optional(),
  }),
]);

const toHost: z.ZodType<ToHost> = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('start'), rank, restarts: count }),
  z.object({ kind: z.literal('order'), rank, order }),
  z.object({ kind: z.literal('terminate'), rank }),
  z.object({ kind: z.literal('dismiss'), reason: text, isFinal: z.boolean() }),
]);

const fromHost = z.object({
  rank,
  restarts: count,
  told: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('message'), message: z.unknown().optional() }),
    z.object({ kind: z.literal('member'), message: z.unknown().optional() }),
    z.object({ kind: z.literal('doomed'), reason: text }),
    z.object({
      kind: z.literal('end'),
      end: z.object({
        exitCode: z.int(),
        error: z.unknown().optional(),
        fate: text.optional(),
        terminated: z.boolean(),
      }),
    }),
    z.object({ kind: z.literal('closed') }),
  ]),
});

/** Returns the message in a form that JSON keeps. */
export function plainFromHost({ told, ...of }: FromHost): object {
  if (told.kind !== 'end') return { ...of, told };
  const { error, ...end } = told.end;
  const encoded = error === undefined ? {} : { error: encodeError(error) };
  return { ...of, told: { kind: 'end', end: { ...end, ...encoded } } };
}

/** Returns undefined for anything that no launcher of this version sends. */
export function parseToHost(value: unknown): ToHost | undefined {
  return toHost.safeParse(value).data;
}

/** Returns undefined for anything that no launcher of this version sends, also for a message in the name of another rank. */
export function parseFromHost(value: unknown): FromHost | undefined {
  const parsed = fromHost.safeParse(value).data;
  if (parsed === undefined) return undefined;
  const { told, ...of } = parsed;
  switch (told.kind) {
    case 'message': {
      const message = parseRankMessage(told.message);
      return message?.rank === of.rank ? { ...of, told: { kind: 'message', message } } : undefined;
    }
    case 'member': {
      const message = parseMemberMessage(told.message);
      return message && { ...of, told: { kind: 'member', message } };
    }
    case 'end': {
      const error = told.end.error === undefined ? undefined : decodeError(told.end.error);
      return { ...of, told: { kind: 'end', end: { ...told.end, error } } };
    }
    case 'doomed':
    case 'closed':
      return { ...of, told };
    default:
      return told satisfies never;
  }
}
