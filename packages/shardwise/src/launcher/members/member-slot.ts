import type { MemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import { lostBy, type RankEnd, type RankHandle, type RankOutcome } from '../ranks/rank-handle.ts';
import type { RankMessage } from '../../run-state/run-message.ts';
import type { StartMember } from './member-start.ts';

/**
 * What a rank does: it starts, waits for a membership, trains as a member, has ended its training, or is gone. A rank
 * that is gone may be started again.
 */
export type SlotPhase = 'starting' | 'ready' | 'member' | 'finished' | 'gone';

export interface SlotListeners {
  readonly onMessage: (message: RankMessage) => void;
  readonly onMember: (slot: MemberSlot, message: MemberMessage) => void;
  /** Called when the rank is gone, or is about to be ended for a reason. Only the first call counts for each start. */
  readonly onGone: (slot: MemberSlot, end: RankEnd) => void;
}

/** Where a slot is, and how its ranks are started. */
export interface SlotPlace {
  /** The number with which its ranks are started. */
  readonly number: number;
  /** The place of its host. */
  readonly host: number;
  readonly start: StartMember;
}

/** A place for a rank: the rank that was started first, and then those that came after it was lost. */
export class MemberSlot {
  /** The number with which its ranks are started. Their log has it. */
  readonly number: number;
  readonly host: number;
  /** Settles when no other rank is started in this place. */
  readonly outcome: Promise<RankOutcome>;
  phase: SlotPhase = 'starting';
  /** Whether its rank has once had the state of the training. */
  hasEntered = false;
  /** Whether its rank has committed an update. */
  hasCommitted = false;
  /** Whether its rank waits because others of a replica are missing. */
  waits = false;
  /** Whether a rank has reported a step. */
  hasStepped = false;
  readonly #start: StartMember;
  readonly #listeners: SlotListeners;
  #handle: RankHandle;
  #starts = 0;
  /** Settles when it is decided whether another rank starts here. Undefined: none does. */
  #decided: PromiseWithResolvers<void> | undefined;
  #startsAgain = false;
  #isAbandoned = false;
  /** Ends the life of the rank for those who listen. */
  #gone: (end: RankEnd) => void = () => undefined;
  /** How the rank was ended from outside. */
  #expelled: RankEnd | undefined;

  constructor({ number, host, start }: SlotPlace, listeners: SlotListeners) {
    this.number = number;
    this.host = host;
    this.#start = start;
    this.#listeners = listeners;
    this.#handle = this.#begin();
    this.outcome = this.#run();
  }

  order(order: LauncherOrder): void {
    this.#handle.order(order);
  }

  /** Whether another rank can start here. False if the host is lost. */
  get canStartAgain(): boolean {
    return !this.#isAbandoned;
  }

  /** Keeps the place of a rank that is lost until it is decided whether another one starts here. */
  keep(): void {
    this.#decided = Promise.withResolvers();
  }

  /** Starts another rank here when the one that is lost has ended. Call `keep` before. */
  startAgain(): void {
    this.#startsAgain = true;
    this.#decided?.resolve();
  }

  /** Starts no other rank here. */
  giveUp(): void {
    this.#startsAgain = false;
    this.#decided?.resolve();
  }

  /** Hears nothing more of its rank, whose host is lost. */
  abandon(): void {
    this.#isAbandoned = true;
    this.giveUp();
  }

  /** Ends its rank for this reason, with which it is lost to the others. Another one may start here. */
  async expel(fate: string): Promise<void> {
    const end = lostBy(fate);
    this.#expelled = end;
    this.#gone(end);
    await this.#handle.terminate();
  }

  async terminate(): Promise<void> {
    this.giveUp();
    await this.#handle.terminate();
    await this.outcome;
  }

  #begin(): RankHandle {
    const restarts = this.#starts;
    this.#starts += 1;
    let isGone = false;
    const isHeard = (): boolean => !isGone && !this.#isAbandoned;
    const gone = (end: RankEnd): void => {
      if (!isHeard()) return;
      isGone = true;
      this.#listeners.onGone(this, end);
    };
    this.#gone = gone;
    this.#expelled = undefined;
    this.phase = 'starting';
    this.hasEntered = false;
    this.hasCommitted = false;
    this.waits = false;
    this.#decided = undefined;
    this.#startsAgain = false;
    return this.#start({
      restarts,
      onMessage: (message) => {
        this.hasStepped ||= message.kind === 'step';
        if (isHeard()) this.#listeners.onMessage(message);
      },
      onMember: (message) => {
        if (isHeard()) this.#listeners.onMember(this, message);
      },
      onDoomed: (reason) => gone(lostBy(reason)),
      onEnd: gone,
    });
  }

  async #run(): Promise<RankOutcome> {
    for (;;) {
      const outcome = await this.#handle.outcome;
      await this.#decided?.promise;
      if (!this.#startsAgain) return { ...outcome, ...this.#expelled };
      this.#handle = this.#begin();
    }
  }
}
