import type { Members, MemberState, RoundResult } from '@shardwise/strategies';

const run = { model: 'weight [1]', settings: '{}', messageBytes: [4], stateBytes: 4 } as const;

/** Does with members what `diloco` does, with one number in the place of a model. It is fast enough for many rounds. */
export class PlainTrainer {
  #completed = 0;
  #value: Float32Array;
  readonly #members: Members;

  constructor(members: Members, value: number) {
    this.#members = members;
    this.#value = Float32Array.of(value);
  }

  get completed(): number {
    return this.#completed;
  }

  async enter(): Promise<void> {
    const state = await this.#members.enter(run, this.#state());
    if (state === null) return;
    await this.#finish({ kind: 'state', state });
    await this.#follow();
  }

  /** Sends a number, and goes on from the mean of those of all. */
  async update(learned: number): Promise<void> {
    const message = new Uint8Array(Float32Array.of(learned).buffer);
    await this.#finish(await this.#members.exchange(this.#completed, message));
    await this.#follow();
  }

  async #follow(): Promise<void> {
    for (;;) {
      const missed = await this.#members.follow(this.#completed);
      if (missed === null) return;
      await this.#finish(missed);
    }
  }

  async #finish(result: RoundResult): Promise<void> {
    if (result.kind === 'state') {
      this.#completed = result.state.completed;
      this.#value = new Float32Array(result.state.bytes.slice().buffer);
    } else {
      const sum = result.updates.reduce((all, { bytes }) => all + valueOf(bytes), 0);
      this.#value[0] = (this.#value[0] ?? 0) - sum / result.updates.length;
      this.#completed += 1;
    }
    await this.#members.took(this.#state());
  }

  #state(): MemberState {
    const bytes = new Uint8Array(this.#value.slice().buffer);
    return { completed: this.#completed, bytes };
  }
}

/** The number of a message. */
export function valueOf(bytes: Uint8Array): number {
  return new Float32Array(bytes.slice().buffer)[0] ?? Number.NaN;
}
