import { type Break, describeBreak } from './broken-connections.ts';
import type { MemberSlot } from './member-slot.ts';
import { changeReason, type LostRanks } from './membership-change.ts';

/** A membership that the launcher has told to its ranks. */
export interface Told {
  /** The slots of the ranks, in rank order. */
  readonly slots: readonly MemberSlot[];
  /** Who was lost, what broke, and who has come, since the membership before. */
  readonly lost: readonly LostRanks[];
  readonly breaks: readonly Break[];
  readonly come: readonly number[];
}

/** The memberships of a generation, by their epochs, and what has happened since the latest one. */
export class ToldMemberships {
  readonly #told: Told[] = [];
  /** The latest membership whose ranks have joined each other. */
  #entered = -1;
  /** The slots whose ranks have joined the others of the latest memberships. */
  readonly #joined = new Map<Told, Set<MemberSlot>>();
  #lost: LostRanks[] = [];
  #breaks: Break[] = [];

  /** The number of memberships, which is the epoch of the next one. */
  get count(): number {
    return this.#told.length;
  }

  get latest(): Told | undefined {
    return this.#told.at(-1);
  }

  /** Whether the ranks of any membership have joined each other. */
  get haveEntered(): boolean {
    return this.#entered >= 0;
  }

  /** Whether ranks have yet to join each other in the latest membership. */
  get isChanging(): boolean {
    return this.#told.length - 1 > this.#entered;
  }

  /** Who was lost since the latest membership. */
  get lost(): readonly LostRanks[] {
    return this.#lost;
  }

  lose(...lost: readonly LostRanks[]): void {
    this.#lost.push(...lost);
  }

  break(found: Break): void {
    this.#breaks.push(found);
  }

  /** Notes a membership, which is told because of what has happened since the one before. */
  tell(slots: readonly MemberSlot[], come: readonly number[]): Told {
    const told = { slots, lost: this.#lost, breaks: this.#breaks, come };
    this.#told.push(told);
    [this.#lost, this.#breaks] = [[], []];
    return told;
  }

  /**
   * Notes that a rank has joined the others of a membership. `since`: if all of them have now, the memberships since the
   * one in which all had before. `isKnown`: whether the rank is one of a membership that has not been left behind.
   */
  enter(slot: MemberSlot, epoch: number): { isKnown: boolean; since?: readonly Told[] } {
    const told = this.#told[epoch];
    if (told === undefined || epoch <= this.#entered) return { isKnown: false };
    const joined = this.#joined.get(told) ?? new Set();
    this.#joined.set(told, joined.add(slot));
    if (joined.size < told.slots.length) return { isKnown: true };
    const since = this.#told.slice(this.#entered + 1, epoch + 1);
    this.#entered = epoch;
    for (const each of since) this.#joined.delete(each);
    return { isKnown: true, since };
  }
}

/** Says why others go on than before some memberships. `atFirst`: the number of ranks with which the generation began. */
export function reasonOf(since: readonly Told[], atFirst: number): string {
  return changeReason({
    lost: since.flatMap(({ lost }) => lost),
    breaks: since.flatMap(({ breaks }) => breaks.map(describeBreak)),
    come: [...new Set(since.flatMap(({ come }) => come))],
    atFirst,
  });
}
