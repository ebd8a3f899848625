import { TensorStateError } from '@shardwise/core/extend';
import { aggregate } from '../aggregation/aggregate.ts';
import { decodeBlocks } from '../messages/block-codes.ts';
import {
  type Agreement,
  type CompressionErrors,
  encodeUpdate,
} from '../messages/outer-messages.ts';
import { checkUpdates } from './check-updates.ts';
import type { MemberAudits, Members, MemberState, RoundResult, RunDescription } from './members.ts';
import type { Agreed, OuterGroup, SharedValues } from './outer-group.ts';

/** Members that come and go. Each gets the updates of all, and computes the same from them. */
export class ChangingGroup implements OuterGroup {
  readonly isFixed = false;
  readonly audits: MemberAudits | null;
  readonly parts = 1;
  readonly #members: Members;
  readonly #run: RunDescription;
  readonly #agreement: Agreement;
  /** The elements of each fragment. */
  readonly #elements: readonly number[];
  #hasEntered = false;

  constructor(
    members: Members,
    run: RunDescription,
    agreement: Agreement,
    elements: readonly number[],
    isAudited: boolean,
  ) {
    this.audits = isAudited ? (members.audits ?? null) : null;
    this.#members = members;
    this.#run = run;
    this.#agreement = agreement;
    this.#elements = elements;
  }

  async begin({ state }: SharedValues): Promise<MemberState | null> {
    if (this.#hasEntered) return null;
    this.#hasEntered = true;
    return this.#members.enter(this.#run, state());
  }

  async agree(
    own: Float32Array,
    errors: CompressionErrors | null,
    completed: number,
  ): Promise<Agreed> {
    const { bits } = this.#agreement;
    // The others would refuse it, and this member would go on without a word.
    if (!own.every(Number.isFinite)) throw notFinite();
    // An update that others make again follows from the state of the run, and so owes nothing for earlier ones.
    if (bits === 32 || errors === null || this.audits !== null) {
      const message = encodeUpdate(own, bits);
      return this.#agreed(await this.#members.exchange(completed, message), completed);
    }
    const owed = own.map((value, at) => value + (errors.worker[at] ?? 0));
    const message = encodeUpdate(owed, bits);
    const result = await this.#members.exchange(completed, message);
    // If the update has not counted, what it owes is still that of the one before.
    if (result.kind === 'updates' && result.updates.some(({ isOwn }) => isOwn)) {
      const sent = decodeBlocks(message, own.length, bits);
      for (let at = 0; at < own.length; at++) errors.worker[at] = (owed[at] ?? 0) - (sent[at] ?? 0);
    }
    return this.#agreed(result, completed);
  }

  async missed(completed: number): Promise<Agreed | null> {
    const result = await this.#members.follow(completed);
    return result === null ? null : this.#agreed(result, completed);
  }

  async took(state: () => MemberState): Promise<void> {
    await this.#members.took(state());
  }

  #agreed(result: RoundResult, completed: number): Agreed {
    if (result.kind === 'state') return result;
    const { bits, aggregation } = this.#agreement;
    const { [completed % this.#elements.length]: elements = 0 } = this.#elements;
    const decoded = result.updates.map((update) => ({
      ...update,
      vector:
        bits === 32
          ? new Float32Array(update.bytes.slice().buffer)
          : decodeBlocks(update.bytes, elements, bits),
    }));
    const { used, refused } = checkUpdates(decoded);
    if (refused.length > 0) this.#members.refuse(completed, refused);
    // Without a majority that is right, no rule can leave out the others.
    if (used.length === 0 || used.length <= 2 * aggregation.faulty) return { kind: 'skipped' };
    return {
      kind: 'vector',
      vector: aggregate(
        used.map(({ vector }) => vector),
        aggregation,
      ),
    };
  }
}

function notFinite(): TensorStateError {
  return new TensorStateError({
    asked: 'an outer step',
    found: 'parameters of this member that are not finite',
    todo: 'Lower the learning rate of the inner optimizer or clip its gradients, and join again',
  });
}
