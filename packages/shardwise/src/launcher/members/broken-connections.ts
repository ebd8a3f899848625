import type { BrokenMessage } from '../ranks/member-message.ts';
import type { MemberSlot } from './member-slot.ts';

/**
 * How long members may take to say that they cannot reach each other. It is longer than a launcher takes to miss a host
 * whose ranks are gone: connections to these break at once.
 */
const HEARING_MS = 3000;
/** How often connections of a rank may break in a while before it counts as lost. */
const MAX_BREAKS = 3;
/** Longer than ranks take to give up joining each other as many times. */
const WHILE_MS = 600_000;

/** Connections of members broke, though all members are there. */
export interface Break {
  /**
   * The members that others could not reach. Those of which most say so come first, and of those that as many name, the
   * last one. Empty if the errors name none.
   */
  readonly unreached: readonly MemberSlot[];
  readonly reason: string;
}

/** Finds out whether connections broke between members that are still there, from what these report. */
export class BrokenConnections {
  readonly #onBreak: (found: Break) => void;
  readonly #reports = new Map<MemberSlot, BrokenMessage>();
  #timer: NodeJS.Timeout | undefined;
  #known: readonly { readonly atMs: number; readonly numbers: readonly number[] }[] = [];

  constructor(onBreak: (found: Break) => void) {
    this.#onBreak = onBreak;
  }

  /**
   * Notes what a member reports of the latest membership. A rank that has ended reports nothing. So if all members have,
   * all are there. If only some have, the others may be computing, or the launcher is about to learn that they are lost.
   */
  report(slot: MemberSlot, message: BrokenMessage, members: readonly MemberSlot[]): void {
    if (!members.includes(slot)) return;
    this.#reports.set(slot, message);
    if (this.#reports.size === members.length) this.#conclude(members);
    else this.#timer ??= setTimeout(() => this.#conclude(members), HEARING_MS);
  }

  /** Forgets what was reported, because these connections are needed no more. */
  forget(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#reports.clear();
  }

  /**
   * Counts a break. Returns the rank that is no longer to be waited for, if one of its connections has broken too often:
   * of those that others could not reach now, the one that was not reached most often, and then the first. Its breaks no
   * longer count for those that it could not reach.
   */
  blame({ unreached }: Break, nowMs: number): Blame | undefined {
    const now = { atMs: nowMs, numbers: unreached.map(({ number }) => number) };
    this.#known = [...this.#known.filter(({ atMs }) => nowMs - atMs < WHILE_MS), now];
    if (unreached.length === 0) {
      const count = this.#known.filter(({ numbers }) => numbers.length === 0).length;
      return count < MAX_BREAKS ? undefined : { slot: undefined, count };
    }
    const counted = unreached.map((slot) => ({
      slot,
      count: this.#known.filter(({ numbers }) => numbers.includes(slot.number)).length,
    }));
    const [worst] = counted.toSorted((a, b) => b.count - a.count);
    if (worst === undefined || worst.count < MAX_BREAKS) return undefined;
    const { number } = worst.slot;
    this.#known = this.#known.map((each) =>
      each.numbers.includes(number) ? { ...each, numbers: [number] } : each,
    );
    return worst;
  }

  #conclude(members: readonly MemberSlot[]): void {
    const reports = [...this.#reports.values()];
    this.forget();
    const named = members.map((slot, rank) => ({
      slot,
      times: reports.filter(({ ranks }) => ranks.includes(rank)).length,
    }));
    const unreached = named
      .filter(({ times }) => times > 0)
      .toSorted((a, b) => b.times - a.times || b.slot.number - a.slot.number)
      .map(({ slot }) => slot);
    this.#onBreak({ unreached, reason: reports[0]?.reason ?? '' });
  }
}

/** Who is to blame for breaks that repeat: undefined if nobody is. */
export interface Blame {
  readonly slot: MemberSlot | undefined;
  readonly count: number;
}

/** Says what broke. */
export function describeBreak({ unreached, reason }: Break): string {
  const numbers = unreached.map(({ number }) => number);
  if (numbers.length === 0) return `Ranks could not reach each other: ${reason}`;
  const who = `${numbers.length === 1 ? 'Rank' : 'Ranks'} ${numbers.join(', ')}`;
  const have = numbers.length === 1 ? 'has' : 'have';
  return `${who} ${have} not ended, but could not be reached: ${reason}`;
}
