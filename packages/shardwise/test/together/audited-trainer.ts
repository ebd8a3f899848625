import { createHash } from 'node:crypto';
import type { AuditTask, MemberState, RoundResult, UpdateTrace } from '@shardwise/strategies';
import type { RunMember } from '../../src/together/member/run-member.ts';

const run = { model: 'weight [1]', settings: '{}', messageBytes: [4], stateBytes: 4 } as const;

/** What a trainer does that is not honest, or null. */
export interface Cheat {
  /** What it sends in the place of its update. */
  readonly update?: (round: number, honest: UpdateTrace) => UpdateTrace;
  /** What it answers when it makes an update again. Null: nothing at all. */
  readonly answer?: (task: AuditTask, honest: UpdateTrace) => UpdateTrace | null;
}

/** Four bytes that follow from some numbers. */
export function bytesFrom(...values: readonly (string | number)[]): Uint8Array {
  const hash = createHash('sha256').update(values.join()).digest();
  // A number near 1, so that no update is refused for its norm.
  return new Uint8Array(Float32Array.of(1 + hash.readUInt16LE(0) / 2 ** 18).buffer);
}

/** What a member learns in a round. It follows from the state and the seed. */
function traceOf(state: Uint8Array, { round, seed }: Omit<AuditTask, 'member'>): UpdateTrace {
  const [kind] = [String(state)];
  return {
    message: bytesFrom('update', kind, round, seed),
    middle: bytesFrom('middle', kind, round, seed),
  };
}

/** Does with members what `diloco` with `audit` does, with one number in the place of a model. */
export class AuditedTrainer {
  /** The number of its updates that have counted. */
  counted = 0;
  #completed = 0;
  #value: Float32Array;
  readonly #states = new Map<number, Uint8Array>();
  readonly #member: RunMember;
  readonly #cheat: Cheat;

  constructor(member: RunMember, value: number, cheat: Cheat = {}) {
    this.#member = member;
    this.#value = Float32Array.of(value);
    this.#cheat = cheat;
  }

  get completed(): number {
    return this.#completed;
  }

  /** `kernels`: members with the same text compute alike. */
  async enter(kernels = 'cpu'): Promise<void> {
    await this.#member.audits.computesAs(new TextEncoder().encode(kernels));
    const state = await this.#member.enter(run, this.#state());
    if (state === null) return;
    await this.#finish({ kind: 'state', state });
    await this.#follow();
  }

  async update(): Promise<void> {
    const [round, { seed }] = [this.#completed, this.#member.audits];
    const state = this.#state().bytes;
    this.#states.set(round, state);
    this.#states.delete(round - 4);
    const honest = traceOf(state, { round, seed });
    const { message, middle } = this.#cheat.update?.(round, honest) ?? honest;
    await this.#member.audits.commit(round, seed, middle);
    const result = await this.#member.exchange(round, message);
    if (result.kind === 'updates' && result.updates.some(({ isOwn }) => isOwn)) this.counted += 1;
    await this.#finish(result);
    await this.#follow();
  }

  async #follow(): Promise<void> {
    for (;;) {
      await this.#makeAgain();
      const missed = await this.#member.follow(this.#completed);
      if (missed === null) return;
      await this.#finish(missed);
    }
  }

  async #makeAgain(): Promise<void> {
    const { audits } = this.#member;
    for (let task = audits.next(); task !== null; task = audits.next()) {
      const state = this.#states.get(task.round);
      const honest = state === undefined ? null : traceOf(state, task);
      const { answer } = this.#cheat;
      if (honest === null || answer === undefined) await audits.answer(task, honest);
      else {
        const given = answer(task, honest);
        if (given !== null) await audits.answer(task, given);
      }
    }
  }

  async #finish(result: RoundResult): Promise<void> {
    if (result.kind === 'state') {
      this.#completed = result.state.completed;
      this.#value = new Float32Array(result.state.bytes.slice().buffer);
    } else {
      for (const { bytes } of result.updates) {
        const [learned = 0] = new Float32Array(bytes.slice().buffer);
        this.#value[0] = (this.#value[0] ?? 0) - learned;
      }
      this.#completed += 1;
    }
    await this.#member.took(this.#state());
  }

  #state(): MemberState {
    return { completed: this.#completed, bytes: new Uint8Array(this.#value.slice().buffer) };
  }
}
