import { z } from 'zod';
import { MAX_MEMBERS, MAX_NAME_LENGTH } from './limits.ts';

const places = [
  'training',
  'catching up',
  'waiting for the state',
  'arriving',
  'auditing',
] as const;

const links = ['direct', 'relay', 'both'] as const;

/** A member, as its coordinator shows it. */
export interface MemberStatus {
  readonly number: number;
  readonly name: string;
  /** `training`, or what it waits for. `auditing`: it makes the update of another member again. */
  readonly place: (typeof places)[number];
  /** The number of rounds with an update of this member. */
  readonly updates: number;
  readonly samplesPerSecond: number;
  /** Its part of the samples of all who are there, from 0 to 1. */
  readonly share: number;
  /** How it gets updates of the others who are there: directly, by the coordinator, or of some by each. */
  readonly link: (typeof links)[number];
  /** How long a message to the coordinator takes there and back. Null: not yet measured. */
  readonly linkMs: number | null;
  readonly loss: number | null;
}

/** What is known of all audits of a run. */
export interface AuditCounts {
  /** The share of the updates that was asked for, from 0 to 1. */
  readonly share: number;
  /** The updates of the run, and how often others have made one of them again. */
  readonly updates: number;
  readonly made: number;
  /** The updates that were to be made again while nobody was there who computes in the same way. */
  readonly missed: number;
  /** The updates for which others have found something else. */
  readonly disputed: number;
}

/** What a coordinator knows of its run. It is the JSON at `/status`. */
export interface RunStatus {
  /** The number of rounds that have ended. */
  readonly completed: number;
  readonly members: readonly MemberStatus[];
  /** The bytes that were passed on from member to member. */
  readonly relayedBytes: number;
  readonly audits: AuditCounts;
}

const count = z.int().min(0);
const fraction = z.number().min(0).max(1);

const runStatus: z.ZodType<RunStatus> = z.object({
  completed: count,
  members: z
    .array(
      z.object({
        number: count,
        name: z.string().max(MAX_NAME_LENGTH),
        place: z.enum(places),
        updates: count,
        samplesPerSecond: z.number().min(0),
        share: fraction,
        link: z.enum(links),
        linkMs: z.number().min(0).nullable(),
        loss: z.number().nullable(),
      }),
    )
    .max(MAX_MEMBERS),
  relayedBytes: count,
  audits: z.object({
    share: fraction,
    updates: count,
    made: count,
    missed: count,
    disputed: count,
  }),
});

/** The most bytes of a status. */
export const MAX_STATUS_BYTES: number = 1 << 20;

/** Reads what a coordinator says at `/status`. Returns null for anything else. */
export function parseRunStatus(text: string): RunStatus | null {
  try {
    return runStatus.safeParse(JSON.parse(text)).data ?? null;
  } catch {
    return null;
  }
}
