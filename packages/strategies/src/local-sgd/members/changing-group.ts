import { ConfigError, TensorStateError } from '@shardwise/core/extend';
import { aggregate, weightedMean } from '../aggregation/aggregate.ts';
import { decodeBlocks } from '../messages/block-codes.ts';
import { type Agreement, encodeUpdate } from '../messages/outer-messages.ts';
import { checkUpdates, type DecodedUpdate } from './check-updates.ts';
import type {
  MemberAudits,
  Members,
  MemberState,
  MemberUpdate,
  RoundResult,
  RunDescription,
} from './members.ts';
import type { Agreed, OuterGroup, OwnUpdate, SharedValues } from './outer-group.ts';
import { splitTokens, withTokens } from './weighted-update.ts';

/** How members agree. */
export interface MemberAgreement extends Agreement {
  /** The elements of each fragment. */
  readonly elements: readonly number[];
  readonly isAudited: boolean;
  /** Whether updates count by their tokens. */
  readonly isWeighted: boolean;
}

/** Members that come and go. Each gets the updates of all, and computes the same from them. */
export class ChangingGroup implements OuterGroup {
  readonly isFixed = false;
  readonly audits: MemberAudits | null;
  readonly parts = 1;
  readonly #members: Members;
  readonly #run: RunDescription;
  readonly #agreement: MemberAgreement;
  #hasEntered = false;

  constructor(members: Members, run: RunDescription, agreement: MemberAgreement) {
    this.audits = agreement.isAudited ? (members.audits ?? null) : null;
    this.#members = members;
    this.#run = run;
    this.#agreement = agreement;
  }

  get isWeighted(): boolean {
    return this.#agreement.isWeighted;
  }

  now(): Promise<number> {
    return Promise.resolve(performance.now());
  }

  async begin({ state }: SharedValues): Promise<MemberState | null> {
    if (this.#hasEntered) return null;
    this.#hasEntered = true;
    return this.#members.enter(this.#run, state());
  }

  async agree({ values: own, tokens, errors, completed }: OwnUpdate): Promise<Agreed> {
    const { bits, isWeighted } = this.#agreement;
    // The others would refuse it, and this member would go on without a word.
    if (!own.every(Number.isFinite)) throw notFinite();
    if (isWeighted && tokens === 0) throw notCounted();
    const exchange = (update: Uint8Array): Promise<RoundResult> =>
      this.#members.exchange(completed, isWeighted ? withTokens(tokens, update) : update);
    // An update that others make again follows from the state of the run, and so owes nothing for earlier ones.
    if (bits === 32 || errors === null || this.audits !== null) {
      return this.#agreed(await exchange(encodeUpdate(own, bits)), completed);
    }
    const owed = own.map((value, at) => value + (errors.worker[at] ?? 0));
    const update = encodeUpdate(owed, bits);
    const result = await exchange(update);
    // If the update has not counted, what it owes is still that of the one before.
    if (result.kind === 'updates' && result.updates.some(({ isOwn }) => isOwn)) {
      const sent = decodeBlocks(update, own.length, bits);
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
    const { aggregation, isWeighted } = this.#agreement;
    const decoded = result.updates.map((update) => this.#decoded(update, completed));
    const { used, refused } = checkUpdates(decoded);
    if (refused.length > 0) this.#members.refuse(completed, refused);
    // Without a majority that is right, no rule can leave out the others.
    if (used.length === 0 || used.length <= 2 * aggregation.faulty) return { kind: 'skipped' };
    const vectors = used.map(({ vector }) => vector);
    const vector = isWeighted
      ? weightedMean(
          vectors,
          used.map(({ tokens }) => tokens),
        )
      : aggregate(vectors, aggregation);
    return { kind: 'vector', vector };
  }

  #decoded(update: MemberUpdate, completed: number): DecodedUpdate {
    const { bits, elements, isWeighted } = this.#agreement;
    const { [completed % elements.length]: length = 0 } = elements;
    const message = isWeighted ? splitTokens(update.bytes) : { tokens: 1, update: update.bytes };
    const vector =
      bits === 32
        ? new Float32Array(message.update.slice().buffer)
        : decodeBlocks(message.update, length, bits);
    return { ...update, tokens: message.tokens, vector };
  }
}

function notFinite(): TensorStateError {
  return new TensorStateError({
    asked: 'an outer step',
    found: 'parameters of this member that are not finite',
    todo: 'Lower the learning rate of the inner optimizer or clip its gradients, and join again',
  });
}

function notCounted(): ConfigError {
  return new ConfigError({
    asked: 'an outer step of diloco with `weighted: true`',
    found: 'no tokens that were counted since the last one',
    todo: 'Call strategy.outer.countTokens(tokens) in the loop, before each optimizer.step()',
  });
}
