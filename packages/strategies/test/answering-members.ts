import type { MemberUpdate, Members, RefusedUpdate, RunDescription } from '@shardwise/strategies';

/** Members of which each round has the updates that `answer` makes of this member's own. */
export class Answering implements Members {
  readonly specificationVersion = 1;
  readonly refused: RefusedUpdate[] = [];
  /** What this member says of its run. */
  run: RunDescription | null = null;
  /** The messages of this member. */
  readonly sent: Uint8Array[] = [];
  readonly #answer: (own: MemberUpdate) => readonly MemberUpdate[];

  constructor(answer: (own: MemberUpdate) => readonly MemberUpdate[]) {
    this.#answer = answer;
  }

  enter(run: RunDescription): Promise<null> {
    this.run = run;
    return Promise.resolve(null);
  }

  exchange(_: number, bytes: Uint8Array): ReturnType<Members['exchange']> {
    this.sent.push(bytes.slice());
    const own = { number: 1, name: 'own', isOwn: true, bytes: bytes.slice() };
    return Promise.resolve({ kind: 'updates', updates: this.#answer(own) });
  }

  follow(): Promise<null> {
    return Promise.resolve(null);
  }

  async took(): Promise<void> {}

  refuse(_: number, refused: readonly RefusedUpdate[]): void {
    this.refused.push(...refused);
  }
}
