import type { MemberMessage } from '../ranks/member-message.ts';
import type { LauncherOrder } from '../ranks/rank-data.ts';
import type { RankEnd, RankHandle, RankOutcome, RankStart } from '../ranks/rank-handle.ts';

/**
 * What a rank does: it starts, waits for a membership, trains as a member, has ended its training, or is gone. A rank
 * that is gone may be started again.
 */
export type SlotPhase = 'starting' | 'ready' | 'member' | 'finished' | 'gone';

export interface SlotListeners {
  readonly onMember: (slot: MemberSlot, message: MemberMessage) => void;
  /** Called when the rank is gone, or is about to be ended for a reason. Only the first call counts for each start. */
  readonly onGone: (slot: MemberSlot, end: RankEnd) => void;
}

/** A place for a rank: the rank that was started first, and then those that came after it was lost. */
export class MemberSlot {
  /** The number with which its ranks are started. Their log has it. */
  readonly number: number;
  /** Settles when no other rank is started in this place. */
  readonly outcome: Promise<RankOutcome>;
  phase: SlotPhase = 'starting';
  /** Whether its rank has once had the state of the training. */
  hasEntered = false;
  /** Whether its rank waits because others of a replica are missing. */
  waits = false;
  /** Whether a rank has reported a step. */
  hasStepped = false;
  readonly #create: new (start: RankStart) => RankHandle;
  readonly #start: RankStart;
  readonly #listeners: SlotListeners;
  #handle: RankHandle;
  #starts = 0;
  #startsAgain = false;

  constructor(
    create: new (start: RankStart) => RankHandle,
    start: RankStart,
    listeners: SlotListeners,
  ) {
    this.number = start.data.rank;
    this.#create = create;
    this.#start = start;
    this.#listeners = listeners;
    this.#handle = this.#begin();
    this.outcome = this.#run();
  }

  order(order: LauncherOrder): void {
    this.#handle.order(order);
  }

  /** Starts another rank here when the one that is lost has ended. */
  startAgain(): void {
    this.#startsAgain = true;
  }

  async terminate(): Promise<void> {
    this.#startsAgain = false;
    await this.#handle.terminate();
    await this.outcome;
  }

  #begin(): RankHandle {
    const { environment, onMessage } = this.#start;
    const { TORCHELASTIC_RESTART_COUNT: before = '0' } = environment;
    const restarts = Number(before) + this.#starts;
    this.#starts += 1;
    let isGone = false;
    const gone = (end: RankEnd): void => {
      if (isGone) return;
      isGone = true;
      this.#listeners.onGone(this, end);
    };
    this.phase = 'starting';
    this.hasEntered = false;
    this.waits = false;
    this.#startsAgain = false;
    return new this.#create({
      ...this.#start,
      environment: { ...environment, TORCHELASTIC_RESTART_COUNT: String(restarts) },
      onMessage: (message) => {
        this.hasStepped ||= message.kind === 'step';
        if (!isGone) onMessage(message);
      },
      onMember: (message) => {
        if (!isGone) this.#listeners.onMember(this, message);
      },
      onDoomed: (reason) =>
        gone({ exitCode: 1, error: undefined, fate: reason, terminated: false }),
      onEnd: gone,
    });
  }

  async #run(): Promise<RankOutcome> {
    for (;;) {
      const outcome = await this.#handle.outcome;
      if (!this.#startsAgain) return outcome;
      this.#handle = this.#begin();
    }
  }
}
