/** What all members of a run have in common. Whoever differs is refused. */
export interface RunDescription {
  /** The names and shapes of the parameters that train, in their order. */
  readonly model: string;
  /** The options of the strategy, as JSON. */
  readonly settings: string;
  /** The bytes of the message of each fragment. Fragments take turns: round r has fragment r % fragments. */
  readonly messageBytes: readonly number[];
  /** The bytes of a state. */
  readonly stateBytes: number;
}

/** What members have in common between two rounds: the anchors and the momenta of all fragments, as f32. */
export interface MemberState {
  /** The number of rounds that have led to it. */
  readonly completed: number;
  readonly bytes: Uint8Array;
}

/** What a member has learned in a round. */
export interface MemberUpdate {
  /** The number of the member. No other member of the run gets it again. */
  readonly number: number;
  readonly name: string;
  /** Whether it is this member's own. */
  readonly isOwn: boolean;
  readonly bytes: Uint8Array;
}

/** How a round ended for this member. */
export type RoundResult =
  /** All members have these updates, in this order. None: the round changes nothing. */
  | { readonly kind: 'updates'; readonly updates: readonly MemberUpdate[] }
  /** The member has missed rounds, and goes on from the state of the others. */
  | { readonly kind: 'state'; readonly state: MemberState };

/** An update that members do not use, and why. */
export interface RefusedUpdate {
  readonly number: number;
  readonly name: string;
  readonly reason: string;
}

/** An update of a round that this member is to make again. */
export interface AuditTask {
  readonly round: number;
  /** Whose update it is. */
  readonly member: number;
  /** Decides which samples were drawn for it. */
  readonly seed: number;
}

/** An update, and what cannot be known without having made it: the values in the middle of the round. */
export interface UpdateTrace {
  readonly message: Uint8Array;
  readonly middle: Uint8Array;
}

/** How members make updates of each other again. */
export interface MemberAudits {
  /** The seed of the round that this member begins now. */
  readonly seed: number;
  /** Says how this member computes, before it enters. Only those who say the same make updates of each other again. */
  computesAs(values: Uint8Array): Promise<void>;
  /** Says how the update was made that `exchange` sends next. */
  commit(round: number, seed: number, middle: Uint8Array): Promise<void>;
  /** The next update that this member is to make again. Null: there is none. */
  next(): AuditTask | null;
  /** Says what making it again has led to. Null: this member cannot do it. */
  answer(task: AuditTask, trace: UpdateTrace | null): Promise<void>;
}

/**
 * The members of a run that come and go. `join` of `shardwise/together` makes one. All members see the same rounds, with
 * the same updates in the same order.
 */
export interface Members {
  readonly specificationVersion: 1;
  /** Absent if members do not make updates of each other again. */
  readonly audits?: MemberAudits;
  /**
   * Enters the run. Resolves with the state to go on from, or with null for the first member, whose own state is that of
   * the run. Rejects with RefusedError if the run is another one.
   */
  enter(run: RunDescription, own: MemberState): Promise<MemberState | null>;
  /** Sends what this member has learned in a round, and waits for the end of the round. */
  exchange(round: number, message: Uint8Array): Promise<RoundResult>;
  /**
   * Resolves with null when this member takes part in the round after `completed` rounds, and with the result of this round
   * if it has ended without this member.
   */
  follow(completed: number): Promise<RoundResult | null>;
  /** Says what the state is after a round. Newcomers get it from here. */
  took(state: MemberState): Promise<void>;
  /** Says which updates of a round were not used. */
  refuse(round: number, refused: readonly RefusedUpdate[]): void;
}
