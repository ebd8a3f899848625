import type { dist } from 'shardwise';
import type { Attendance } from './attendance.ts';

/**
 * A member of a run that others leave and join as an attendance says, so that nobody need ask who is there. Members send
 * their updates to each other. Who was away takes the state of the run from one who was there.
 */
export class RoundMembers implements dist.Members {
  readonly specificationVersion = 1;
  readonly #group: dist.ProcessGroup;
  readonly #attendance: Attendance;
  #stateBytes = 0;

  /** The group has all ranks that ever take part. */
  constructor(group: dist.ProcessGroup, attendance: Attendance) {
    this.#group = group;
    this.#attendance = attendance;
  }

  /** All begin together, with the same values. */
  enter({ stateBytes }: Parameters<dist.Members['enter']>[0]): Promise<null> {
    this.#stateBytes = stateBytes;
    return Promise.resolve(null);
  }

  async exchange(round: number, message: Uint8Array): Promise<dist.RoundResult> {
    const { rank: own } = this.#group;
    const updates = await Promise.all(
      this.#present(round).map(async (rank) => {
        const isOwn = rank === own;
        const bytes = isOwn ? message : new Uint8Array(message.byteLength);
        if (!isOwn) await Promise.all([this.#send(message, rank), this.#receive(bytes, rank)]);
        return { number: rank, name: `rank ${rank}`, isOwn, bytes };
      }),
    );
    return { kind: 'updates', updates };
  }

  /** Waits until this rank is back, and takes the state that the others have then. */
  async follow(completed: number): Promise<dist.RoundResult | null> {
    const { rank } = this.#group;
    const rounds = this.#attendance.length;
    let round = completed;
    while (round < rounds && !this.#present(round).includes(rank)) round++;
    if (round === completed) return null;
    const sender = this.#sendersOf(round).get(rank);
    if (sender === undefined) throw new RangeError(`nobody has the state of round ${round}`);
    const bytes = new Uint8Array(this.#stateBytes);
    await this.#receive(bytes, sender);
    return { kind: 'state', state: { completed: round, bytes } };
  }

  async took({ completed, bytes }: dist.MemberState): Promise<void> {
    const { rank } = this.#group;
    const returning = [...this.#sendersOf(completed)].filter(([, sender]) => sender === rank);
    await Promise.all(returning.map(([to]) => this.#send(bytes, to)));
  }

  refuse(round: number, refused: readonly { readonly reason: string }[]): void {
    const reasons = refused.map(({ reason }) => reason).join(', ');
    throw new RangeError(`round ${round} refuses updates of honest ranks: ${reasons}`);
  }

  #present(round: number): readonly number[] {
    return this.#attendance[round] ?? [];
  }

  /** Those who come back for a round, and who sends each of them the state. Those who have it take turns. */
  #sendersOf(round: number): ReadonlyMap<number, number> {
    const had = this.#present(round - 1);
    const returning = this.#present(round).filter((rank) => round > 0 && !had.includes(rank));
    return new Map(returning.map((rank, at) => [rank, had[(round + at) % had.length] ?? 0]));
  }

  #send(bytes: Uint8Array, to: number): Promise<void> {
    return this.#group.send({ bytes, dtype: 'u8' }, to);
  }

  #receive(bytes: Uint8Array, from: number): Promise<void> {
    return this.#group.recv({ bytes, dtype: 'u8' }, from);
  }
}
