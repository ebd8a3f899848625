import { hashOfNumbers, hashOffset, mixed, type ProcessGroup } from '@shardwise/core/extend';
import { agree, type Agreement, bytesOf } from '../messages/outer-messages.ts';
import type { Agreed, OuterGroup, OwnUpdate, SharedValues } from './outer-group.ts';
import { requireSameHash } from './require-same-hash.ts';

/** The ranks of a process group, which are the same in every outer step. */
export class FixedGroup implements OuterGroup {
  readonly isFixed = true;
  readonly isWeighted = false;
  readonly audits = null;
  readonly #strategy: string;
  readonly #group: ProcessGroup;
  readonly #agreement: Agreement;

  constructor(strategy: string, group: ProcessGroup, agreement: Agreement) {
    this.#strategy = strategy;
    this.#group = group;
    this.#agreement = agreement;
  }

  get parts(): number {
    return this.#group.size;
  }

  now(): Promise<number> {
    return Promise.resolve(performance.now());
  }

  /** Throws CollectiveMismatchError on every rank if the ranks have different values. */
  async begin({ anchors, isRestored }: SharedValues): Promise<null> {
    const group = this.#group;
    if (isRestored || group.size === 1) return null;
    const hash = anchors.reduce(
      (sum, each) => mixed(sum, hashOfNumbers(bytesOf(each))),
      hashOffset,
    );
    await requireSameHash(group, hash, {
      asked: `the first update under ${this.#strategy}`,
      other: 'other values of the parameters',
      todo: 'Load the same weights on every rank; to go on in the middle of a run, load the state of the strategy (strategy.outer) with the model',
    });
    return null;
  }

  async agree({ values, errors }: OwnUpdate): Promise<Agreed> {
    return { kind: 'vector', vector: await agree(values, this.#group, this.#agreement, errors) };
  }

  missed(): Promise<null> {
    return Promise.resolve(null);
  }

  async took(): Promise<void> {}
}
