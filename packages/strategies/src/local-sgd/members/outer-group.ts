import type { CompressionErrors } from '../messages/outer-messages.ts';
import type { MemberAudits, MemberState } from './members.ts';

/** What those who meet in an outer step go on from. */
export type Agreed =
  /** One vector of what all of them have learned. Shape: [n]. */
  | { readonly kind: 'vector'; readonly vector: Float32Array }
  /** Nobody has sent what can be used: all go on from their own values. */
  | { readonly kind: 'skipped' }
  /** The others have gone on without this one, which takes their state. */
  | { readonly kind: 'state'; readonly state: MemberState };

/** What is shared by those who meet, before the first update. */
export interface SharedValues {
  /** The values of each fragment. */
  readonly anchors: readonly Float32Array[];
  /** Whether they were loaded from a checkpoint with the state of the outer steps. */
  readonly isRestored: boolean;
  /** Returns the state as a copy. */
  readonly state: () => MemberState;
}

/** What this rank has learned. */
export interface OwnUpdate {
  /** Whoever gets it owns it. Shape: [n]. */
  readonly values: Float32Array;
  /** The number of tokens that it has learned from. 0 if they are not counted. */
  readonly tokens: number;
  /** What messages of few bits have left out. */
  readonly errors: CompressionErrors | null;
  /** The number of outer steps before. */
  readonly completed: number;
}

/** Those who meet in outer steps. They are a fixed group of ranks, or members that come and go. */
export interface OuterGroup {
  /** Whether the ranks are the same in every outer step. */
  readonly isFixed: boolean;
  /** Whether what each has learned counts by its tokens. */
  readonly isWeighted: boolean;
  /** How those who meet make updates of each other again. Null: they do not. */
  readonly audits: MemberAudits | null;
  /** The number of ranks whose mean is computed in parts. 1 if each computes all of it. */
  readonly parts: number;
  /** The time in milliseconds by which rounds end that last for a time. */
  now(): Promise<number>;
  /** Makes sure that all begin with the same values. Resolves with a state to go on from, or null. */
  begin(shared: SharedValues): Promise<MemberState | null>;
  /** Agrees in an outer step. */
  agree(own: OwnUpdate): Promise<Agreed>;
  /** What others have agreed on without this one after `completed` outer steps, or null if it has missed nothing. */
  missed(completed: number): Promise<Agreed | null>;
  /** Called after each outer step. `state` returns a copy. */
  took(state: () => MemberState): Promise<void>;
}
