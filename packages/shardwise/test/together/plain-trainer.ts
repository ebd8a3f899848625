import type { Members, MemberState, RoundResult } from '@shardwise/strategies';

/** Does with members what `diloco` does, with one number in the place of each fragment. It is fast enough for many rounds. */
export class PlainTrainer {
  #completed = 0;
  #values: Float32Array;
  readonly #members: Members;

  constructor(members: Members, ...values: readonly number[]) {
    this.#members = members;
    this.#values = Float32Array.from(values);
  }

  get completed(): number {
    return this.#completed;
  }

  get values(): readonly number[] {
    return [...this.#values];
  }

  async enter(): Promise<void> {
    const { length } = this.#values;
    const run = {
      model: `weight [${length}]`,
      settings: '{}',
      messageBytes: Array.from({ length }, () => 4),
      stateBytes: 4 * length,
    };
    const state = await this.#members.enter(run, this.#state());
    if (state === null) return;
    await this.#finish({ kind: 'state', state });
    await this.#follow();
  }

  /** Sends a number, and goes on from the mean of those of all, not before `meanwhile` has ended. */
  async update(learned: number, meanwhile: Promise<void> = Promise.resolve()): Promise<void> {
    const message = new Uint8Array(Float32Array.of(learned).buffer);
    const [result] = await Promise.all([
      this.#members.exchange(this.#completed, message),
      meanwhile,
    ]);
    await this.#finish(result);
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
      this.#values = new Float32Array(result.state.bytes.slice().buffer);
    } else {
      const sum = result.updates.reduce((all, { bytes }) => all + valueOf(bytes), 0);
      const at = this.#completed % this.#values.length;
      this.#values[at] = (this.#values[at] ?? 0) - sum / result.updates.length;
      this.#completed += 1;
    }
    await this.#members.took(this.#state());
  }

  #state(): MemberState {
    const bytes = new Uint8Array(this.#values.slice().buffer);
    return { completed: this.#completed, bytes };
  }
}

/** The number of a message. */
export function valueOf(bytes: Uint8Array): number {
  return new Float32Array(bytes.slice().buffer)[0] ?? Number.NaN;
}
