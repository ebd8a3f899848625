import type { Peer, StateHash } from './peer.ts';

/** What members say about the state after some rounds. */
interface Reports {
  /** Those whose word counts: their updates made the state. */
  readonly voters: ReadonlySet<Peer>;
  readonly hashes: Map<Peer, string>;
  hash: string | null;
}

/** The states of so many rounds are known. */
const MAX_KNOWN = 64;

/**
 * Finds the hash that the state of all members must have after each round: the one of most of those who took part. A
 * single one that has another state is wrong, whatever it says.
 */
export class StateHashes {
  readonly #reports = new Map<number, Reports>();

  /** The hash after so many rounds. Undefined: it is not known, or not any more. */
  hashOf(completed: number): string | undefined {
    return this.#reports.get(completed)?.hash ?? undefined;
  }

  /** A state that needs no reports: the first one. */
  declare({ completed, hash }: StateHash): void {
    this.#reports.set(completed, { voters: new Set(), hashes: new Map(), hash });
  }

  /** A round is over, and `voters` took part in it. */
  expect(completed: number, voters: Iterable<Peer>): void {
    this.#reports.set(completed, { voters: new Set(voters), hashes: new Map(), hash: null });
    this.#reports.delete(completed - MAX_KNOWN);
  }

  /** Whether a member has said that it has the state after so many rounds. */
  isReported(completed: number): boolean {
    return (this.#reports.get(completed)?.hashes.size ?? 0) > 0;
  }

  report(peer: Peer, { completed, hash }: StateHash): void {
    this.#reports.get(completed)?.hashes.set(peer, hash);
  }

  /**
   * Decides what can be decided by the reports of those who are still there, and returns it with those who said
   * otherwise.
   */
  decide(
    present: ReadonlySet<Peer>,
  ): readonly { readonly state: StateHash; readonly wrong: readonly Peer[] }[] {
    return [...this.#reports].flatMap(([completed, reports]) => {
      if (reports.hash !== null) return [];
      const hash = decided(reports, present);
      if (hash === null) return [];
      reports.hash = hash;
      const wrong = [...reports.hashes].flatMap(([peer, own]) => (own === hash ? [] : [peer]));
      return [{ state: { completed, hash }, wrong }];
    });
  }
}

/** The hash of more than half of the voters, or when all have voted, of most of them. Null: it is open. */
function decided({ voters, hashes }: Reports, present: ReadonlySet<Peer>): string | null {
  const stillThere = [...voters].filter((each) => present.has(each) || hashes.has(each));
  // If nobody is left who took part, the word of others counts.
  const counting = stillThere.length > 0 ? stillThere : [...hashes.keys()];
  const votes = new Map<string, number>();
  let missing = 0;
  for (const peer of counting.toSorted((a, b) => a.number - b.number)) {
    const hash = hashes.get(peer);
    if (hash === undefined) missing += 1;
    else votes.set(hash, (votes.get(hash) ?? 0) + 1);
  }
  let [best, most]: [string | null, number] = [null, 0];
  // Of equally many, it is that of the member who has been there for longest.
  for (const [hash, count] of votes) if (count > most) [best, most] = [hash, count];
  return missing === 0 || 2 * most > counting.length ? best : null;
}
