import { z } from 'zod';
import { MAX_DIRECT, MAX_SIGNAL_LENGTH } from './direct-link.ts';
import { MAX_MEMBERS, MAX_NAME_LENGTH, MAX_TEXT_LENGTH, MAX_TOKEN_LENGTH } from './limits.ts';

// What members and their coordinator tell each other, as JSON. Nothing else is accepted.

/** Asks to be let in. It is the first message. */
interface Hello {
  readonly kind: 'hello';
  readonly version: number;
  readonly token: string;
  readonly name: string;
  /** Whether it can reach other members without the coordinator. */
  readonly direct: boolean;
}

/** Says which model a member trains, and how, and from which state it could go on. */
export interface Enter {
  readonly kind: 'enter';
  /** The hash of the names and shapes of the parameters. */
  readonly model: string;
  readonly settings: string;
  /** The bytes of the update of each fragment. */
  readonly messageBytes: readonly number[];
  readonly stateBytes: number;
  readonly completed: number;
  readonly hash: string;
  /** How it computes: members with the same hash get the same bits. Null: nobody can make its updates again. */
  readonly computes: string | null;
}

/** The hash of a member's state after so many rounds. */
interface Took {
  readonly kind: 'took';
  readonly completed: number;
  readonly hash: string;
}

/** Names the updates of a round that a member does not use. */
export interface Refuse {
  readonly kind: 'refuse';
  readonly round: number;
  readonly numbers: readonly number[];
}

/** How an update was made. */
export interface Made {
  /** The hash of the values in the middle of the round, which only those know who make the update. */
  readonly middle: string;
  /** Decides which samples were drawn. */
  readonly seed: number;
}

/** Says what an update is, before any of it is sent. */
export interface Commit {
  readonly kind: 'commit';
  readonly round: number;
  /** The hash of the update. */
  readonly hash: string;
  /** To whom it is sent directly. */
  readonly directTo: readonly number[];
  /** How others can make it again. Null: they cannot. */
  readonly made: Made | null;
}

/** What a member has found when it made the update of another one again. */
export interface Audited {
  readonly kind: 'audited';
  readonly round: number;
  readonly member: number;
  readonly hash: string;
  readonly middle: string;
}

/** What a member says. */
export type FromMember =
  | Hello
  | Enter
  | Took
  | Refuse
  | Commit
  | Audited
  /** It has the whole update of a member, which was sent directly. */
  | { readonly kind: 'got'; readonly round: number; readonly from: number; readonly hash: string }
  /** A text for a member to which a direct connection is made. */
  | { readonly kind: 'signal'; readonly to: number; readonly text: string }
  /** Whether it reaches a member directly. */
  | { readonly kind: 'linked'; readonly to: number; readonly isOpen: boolean }
  /** It does not have the state any more with which the round began. */
  | { readonly kind: 'cannotAudit'; readonly round: number; readonly member: number }
  /** A state that was asked for is no longer there. */
  | { readonly kind: 'cannotGive'; readonly to: number }
  /** A state that has arrived is not the one that the members have. */
  | { readonly kind: 'wrongState'; readonly completed: number }
  /** What is shown of a member. The samples are all since it came. */
  | { readonly kind: 'report'; readonly loss: number | null; readonly samples: number }
  | { readonly kind: 'alive' };

const refusals = [
  'version',
  'token',
  'full',
  'model',
  'excluded',
  'audit',
  'protocol',
  'slow',
] as const;

/** Why a member is refused. */
export type Refusal = (typeof refusals)[number];

/** A member, as the coordinator names it. */
export interface NamedMember {
  readonly number: number;
  readonly name: string;
}

/** What a coordinator says. */
export type FromCoordinator =
  | { readonly kind: 'welcome'; readonly number: number }
  /** The last message before the coordinator closes the connection. */
  | { readonly kind: 'refused'; readonly reason: Refusal; readonly found: string }
  /** Go on from your own state, which is that of the run. */
  | { readonly kind: 'begin'; readonly completed: number }
  /** Wait for the state after so many rounds, and for all updates since. */
  | { readonly kind: 'await'; readonly completed: number; readonly from: number }
  /** Send your state to a member when it is that after so many rounds. */
  | { readonly kind: 'give'; readonly completed: number; readonly to: number }
  /** The hash that the state of all members has after so many rounds. */
  | { readonly kind: 'state'; readonly completed: number; readonly hash: string }
  /** Connect directly with a member. `begins`: the other one answers. */
  | { readonly kind: 'meet'; readonly number: number; readonly begins: boolean }
  | { readonly kind: 'signal'; readonly from: number; readonly text: string }
  /** Send your update by the coordinator, to those whom you do not reach. */
  | { readonly kind: 'relay'; readonly round: number }
  /** Make the update of a member again. Its next round has begun without this member. */
  | {
      readonly kind: 'audit';
      readonly round: number;
      readonly member: number;
      readonly seed: number;
    }
  /** A round begins. Its group is who is there now. */
  | { readonly kind: 'round'; readonly round: number; readonly group: readonly number[] }
  /** A round is over. Its updates are those of these members, in this order. */
  | { readonly kind: 'closed'; readonly round: number; readonly updates: readonly NamedMember[] }
  | { readonly kind: 'alive' };

/** The coordinator gives each connection another number. */
const number = z
  .int()
  .min(1)
  .max(2 ** 32 - 1);
/** A number of rounds. */
const count = z
  .int()
  .min(0)
  .max(2 ** 32 - 2);
const bytes = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
/** SHA-256 in hexadecimal digits. */
const hash = z.string().regex(/^[0-9a-f]{64}$/);
/** Characters that are visible, and single spaces between them, so that a name cannot be mistaken for other text. */
const name = z
  .string()
  .max(MAX_NAME_LENGTH)
  .regex(/^[\p{L}\p{N}\p{P}\p{S}]+(?: [\p{L}\p{N}\p{P}\p{S}]+)*$/u);
const loss = z.number().min(-1e30).max(1e30).nullable();
const alive = z.strictObject({ kind: z.literal('alive') });

const made = z.strictObject({ middle: hash, seed: number });
const text = z.string().max(MAX_SIGNAL_LENGTH);

const fromMember: z.ZodType<FromMember> = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('hello'),
    version: z.int(),
    token: z.string().max(MAX_TOKEN_LENGTH),
    name,
    direct: z.boolean(),
  }),
  z.strictObject({
    kind: z.literal('enter'),
    model: hash,
    settings: z.string().max(4096),
    messageBytes: z.array(bytes.min(1)).min(1).max(4096),
    stateBytes: bytes.min(1),
    completed: count,
    hash,
    computes: hash.nullable(),
  }),
  z.strictObject({ kind: z.literal('took'), completed: count, hash }),
  z.strictObject({ kind: z.literal('cannotGive'), to: number }),
  z.strictObject({ kind: z.literal('wrongState'), completed: count }),
  z.strictObject({
    kind: z.literal('refuse'),
    round: count,
    numbers: z.array(number).min(1).max(MAX_MEMBERS),
  }),
  z.strictObject({
    kind: z.literal('commit'),
    round: count,
    hash,
    directTo: z.array(number).max(MAX_DIRECT),
    made: made.nullable(),
  }),
  z.strictObject({ kind: z.literal('audited'), round: count, member: number, hash, middle: hash }),
  z.strictObject({ kind: z.literal('got'), round: count, from: number, hash }),
  z.strictObject({ kind: z.literal('signal'), to: number, text }),
  z.strictObject({ kind: z.literal('linked'), to: number, isOpen: z.boolean() }),
  z.strictObject({ kind: z.literal('cannotAudit'), round: count, member: number }),
  z.strictObject({ kind: z.literal('report'), loss, samples: bytes }),
  alive,
]);

const named = z.strictObject({ number, name });

const fromCoordinator: z.ZodType<FromCoordinator> = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('welcome'), number }),
  z.strictObject({
    kind: z.literal('refused'),
    reason: z.enum(refusals),
    found: z.string().max(16_384),
  }),
  z.strictObject({ kind: z.literal('begin'), completed: count }),
  z.strictObject({ kind: z.literal('await'), completed: count, from: number }),
  z.strictObject({ kind: z.literal('give'), completed: count, to: number }),
  z.strictObject({ kind: z.literal('state'), completed: count, hash }),
  z.strictObject({ kind: z.literal('meet'), number, begins: z.boolean() }),
  z.strictObject({ kind: z.literal('signal'), from: number, text }),
  z.strictObject({ kind: z.literal('relay'), round: count }),
  z.strictObject({ kind: z.literal('audit'), round: count, member: number, seed: number }),
  z.strictObject({
    kind: z.literal('round'),
    round: count,
    group: z.array(number).max(MAX_MEMBERS),
  }),
  z.strictObject({
    kind: z.literal('closed'),
    round: count,
    updates: z.array(named).max(MAX_MEMBERS),
  }),
  alive,
]);

/** Reads a message of a member. Returns null for anything else. */
export function parseFromMember(text: string): FromMember | null {
  return parse(fromMember, text);
}

/** Reads a message of a coordinator. Returns null for anything else. */
export function parseFromCoordinator(text: string): FromCoordinator | null {
  return parse(fromCoordinator, text);
}

export function encodeMessage(message: FromMember | FromCoordinator): string {
  return JSON.stringify(message);
}

/** Whether a text can be the name of a member. */
export function isName(text: string): boolean {
  return name.safeParse(text).success;
}

function parse<T>(schema: z.ZodType<T>, text: string): T | null {
  if (text.length > MAX_TEXT_LENGTH) return null;
  try {
    return schema.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
