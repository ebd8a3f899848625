import type { RankMessage, RunMessage } from '../../run-state/run-message.ts';

/** A slot, by the number that its ranks are started with. */
interface Numbered {
  readonly number: number;
}

/**
 * What slots report, as the user is told of it: with the ranks of the latest membership whose members have all joined
 * each other. Until then, reports of a slot that has joined are held.
 */
export class MemberReports {
  readonly #onMessage: (message: RunMessage) => void;
  /** The ranks of the slots, by their numbers. */
  #rankOf: ReadonlyMap<number, number> = new Map();
  /** What slots have sent since they joined others of whom the user does not know yet, by their numbers. */
  readonly #held = new Map<number, RankMessage[]>();

  constructor(onMessage: (message: RunMessage) => void) {
    this.#onMessage = onMessage;
  }

  /** The number of ranks of which the user knows. It is 0 before the first membership. */
  get worldSize(): number {
    return this.#rankOf.size;
  }

  pass(message: RankMessage): void {
    const held = this.#held.get(message.rank);
    if (held === undefined) this.#tell(message);
    else held.push(message);
  }

  /** Holds what a slot reports from now on. */
  hold({ number }: Numbered): void {
    this.#held.set(number, []);
  }

  /** Passes on what a slot has sent since it joined others of whom the user does not know yet. */
  release({ number }: Numbered): void {
    const held = this.#held.get(number) ?? [];
    this.#held.delete(number);
    for (const message of held) this.#tell(message);
  }

  /** Gives slots the ranks that they have from now on. */
  number(slots: readonly Numbered[]): void {
    this.#rankOf = new Map(slots.map(({ number }, rank) => [number, rank]));
  }

  /** Tells that the rank of a slot has ended, if the user knows of it. */
  exit({ number }: Numbered, code: number): void {
    const rank = this.#rankOf.get(number);
    if (rank !== undefined) this.#onMessage({ kind: 'exit', rank, code });
  }

  #tell(message: RankMessage): void {
    this.#onMessage({ ...message, rank: this.#rankOf.get(message.rank) ?? message.rank });
  }
}
