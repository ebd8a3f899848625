import { describeEnd } from '../failure.ts';
import { isAborted } from '../launch.ts';
import type { RankEnd } from '../ranks/rank-handle.ts';
import type { MemberSlot } from './member-slot.ts';
import type { MembersOptions } from './members-options.ts';

/** How often a rank may fail by itself before it has committed an update, also if its host comes anew. */
const MAX_FAILED_STARTS = 2;

/**
 * The ranks that are to start again. They take the restarts of the budget only once the others have gone on: if more are
 * lost until then than the others can do without, all start again, for one restart.
 */
export class DueRestarts {
  readonly #members: MembersOptions;
  readonly #due = new Set<MemberSlot>();
  /** How often the rank of a slot has failed since it last committed an update, by the numbers of the slots. */
  readonly #failedStarts = new Map<number, number>();

  constructor(members: MembersOptions) {
    this.#members = members;
  }

  /** Keeps the place of a rank that is lost, unless it fails at each start. */
  add(slot: MemberSlot, end: RankEnd): void {
    const { number, hasCommitted } = slot;
    // Another rank, or whoever killed it, may be to blame.
    const isOwnFault = !hasCommitted && end.fate === undefined && !isAborted(end.error);
    const before = hasCommitted ? 0 : (this.#failedStarts.get(number) ?? 0);
    const failures = before + Number(isOwnFault);
    this.#failedStarts.set(number, failures);
    if (!slot.canStartAgain) return;
    if (failures >= MAX_FAILED_STARTS) {
      this.#members.onNotice(
        `Rank ${number} has failed ${failures} times before its first commit, so it is not started again: ${describeEnd(end)}`,
      );
      return;
    }
    slot.keep();
    this.#due.add(slot);
  }

  /** Starts the ranks again for which the budget lasts. */
  start(): void {
    for (const slot of this.#due) {
      if (slot.canStartAgain && this.#members.takeRestart()) slot.startAgain();
      else slot.giveUp();
    }
    this.#due.clear();
  }

  /** Starts none of them. */
  giveUp(): void {
    for (const slot of this.#due) slot.giveUp();
    this.#due.clear();
  }
}
