import {
  CollectiveMismatchError,
  hashOfNumbers,
  hashOffset,
  mixed,
  type ProcessGroup,
} from '@shardwise/core/extend';
import { agree, type Agreement, bytesOf } from '../messages/outer-messages.ts';
import type { Agreed, OuterGroup, OwnUpdate, SharedValues } from './outer-group.ts';

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
    const hashes = new Int32Array(group.size);
    await group.allGather(
      { bytes: new Uint8Array(Int32Array.of(hash).buffer), dtype: 'i32' },
      { bytes: new Uint8Array(hashes.buffer), dtype: 'i32' },
    );
    const rank = hashes.findIndex((each) => each !== hashes[0]);
    if (rank < 0) return null;
    throw new CollectiveMismatchError(
      {
        asked: `the first update under ${this.#strategy}`,
        found: `rank ${rank} has other values of the parameters than rank 0`,
        todo: 'Load the same weights on every rank; to go on in the middle of a run, load the state of the strategy (strategy.outer) with the model',
      },
      { rank },
    );
  }

  async agree({ values, errors }: OwnUpdate): Promise<Agreed> {
    return { kind: 'vector', vector: await agree(values, this.#group, this.#agreement, errors) };
  }

  missed(): Promise<null> {
    return Promise.resolve(null);
  }

  async took(): Promise<void> {}
}
