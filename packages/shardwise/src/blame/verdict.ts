import type { FlightState } from '@shardwise/collectives';

/** What one rank called at the place that a verdict is about. */
export interface BlamedCall {
  /** The rank in the world, as all ranks here. */
  readonly rank: number;
  /** `allReduce(sum, f32 [10])` */
  readonly call: string;
  readonly sequence: number;
  readonly state: FlightState;
  /** `train.ts:12 (step)`; undefined where the record has none. */
  readonly site: string | undefined;
  readonly createdNs: number;
}

/** Why a rank counts as missing. */
export type Absence =
  /** It left a dump, in which the call is not; `last` is its latest call on the group. */
  | { readonly rank: number; readonly kind: 'not called'; readonly last: BlamedCall | undefined }
  /** It called after another one had given up. */
  | {
      readonly rank: number;
      readonly kind: 'late';
      readonly late: BlamedCall;
      readonly lateMs: number;
    }
  | { readonly rank: number; readonly kind: 'no dump' };

interface Place {
  /** Name of the group. */
  readonly group: string;
  /** `call #3`, `message #0 from rank 0 to rank 1 with tag 2` */
  readonly place: string;
  /** Number of the call, or of the message. */
  readonly sequence: number;
  /** When the first rank came there; Infinity where no record has it. */
  readonly sinceNs: number;
  /** Ranks to look at, ascending. */
  readonly culprits: readonly number[];
  readonly calls: readonly BlamedCall[];
}

/** The first call before it that ranks made alike, but from different lines; empty without one. */
export type SiteHint = readonly BlamedCall[];

/** The first place where ranks do not do the same. */
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
  /** Nothing differs: the calls that the dumps hold, on how many groups. */
  | { readonly kind: 'consistent'; readonly calls: number; readonly groups: number };
