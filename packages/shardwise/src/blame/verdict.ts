import type { FlightState } from '@shardwise/collectives';

/** The call of one rank at the place that a verdict is about. */
export interface BlamedCall {
  /** The rank in the world. All ranks in this file are ranks in the world. */
  readonly rank: number;
  /** The call as text, such as `allReduce(sum, f32 [10])`. */
  readonly call: string;
  readonly sequence: number;
  readonly state: FlightState;
  /** The line of user code, such as `train.ts:12 (step)`. Undefined if the record has none. */
  readonly site: string | undefined;
  readonly createdNs: number;
}

/** Why a rank counts as missing. */
export type Absence =
  /** The rank left a dump that does not contain the call. `last` is its latest call on the group. */
  | { readonly rank: number; readonly kind: 'not called'; readonly last: BlamedCall | undefined }
  /** The rank made the call after another rank had given up. */
  | {
      readonly rank: number;
      readonly kind: 'late';
      readonly late: BlamedCall;
      readonly lateMs: number;
    }
  | { readonly rank: number; readonly kind: 'no dump' };

interface Place {
  /** The name of the group. */
  readonly group: string;
  /** The place as text, such as `call #3` or `message #0 from rank 0 to rank 1 with tag 2`. */
  readonly place: string;
  /** The number of the call or of the message. */
  readonly sequence: number;
  /** When the first rank made the call, in nanoseconds since the epoch. Infinity if no record has it. */
  readonly sinceNs: number;
  /** The ranks to look at, ascending. */
  readonly culprits: readonly number[];
  readonly calls: readonly BlamedCall[];
}

/** The first earlier call that ranks made alike but from different lines. Empty if there is none. */
export type SiteHint = readonly BlamedCall[];

/** The first place where ranks do not do the same thing. */
export type Finding =
  | (Place & { readonly kind: 'differs'; readonly siteHint: SiteHint })
  | (Place & {
      readonly kind: 'missing';
      readonly absences: readonly Absence[];
      readonly siteHint: SiteHint;
    })
  | (Place & { readonly kind: 'unfinished' });

export type Verdict =
  | Finding
  /** Nothing differs. `calls` and `groups` count the calls in the dumps, and the groups that they belong to. */
  | { readonly kind: 'consistent'; readonly calls: number; readonly groups: number };
