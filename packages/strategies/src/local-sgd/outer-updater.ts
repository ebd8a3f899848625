import {
  CollectiveMismatchError,
  ConfigError,
  hashOfNumbers,
  hashOffset,
  mixed,
  Tensor,
  type Updater,
  type UpdateRequest,
} from '@shardwise/core/extend';
import type { Fragment, Meeting } from './fragment.ts';
import { bytesOf } from './messages/outer-messages.ts';

/** When fragments meet, in updates of the inner optimizer. */
export interface MeetingTimes {
  /** The number of updates from one outer step to the next. Fragments take turns. */
  readonly period: number;
  /** The number of updates between the message of a fragment and its outer step. Below `period`. */
  readonly delay: number;
}

/** Where a rank stands between two outer steps. */
export interface Progress {
  /** The number of updates since the latest outer step. */
  readonly updates: number;
  /** The number of outer steps of all fragments. */
  readonly outerSteps: number;
}

/** Lets optimizers update on this rank alone, and takes the outer steps in between. */
export class OuterUpdater implements Updater {
  readonly name: string;
  readonly keepsStates = false;
  readonly averagesLater = false;
  readonly fragments: readonly Fragment[];
  readonly #meeting: Meeting;
  readonly #times: MeetingTimes;
  /** The parameters that are updated together. Null before the first update. */
  #updated: ReadonlySet<object> | null = null;
  #progress: Progress = { updates: 0, outerSteps: 0 };

  constructor(name: string, fragments: readonly Fragment[], meeting: Meeting, times: MeetingTimes) {
    this.name = name;
    this.fragments = fragments;
    this.#meeting = meeting;
    this.#times = times;
  }

  get progress(): Progress {
    return this.#progress;
  }

  /** The program may change a parameter at any time, as the optimizer does. */
  checkAssign(): void {}

  async step({ groups, updateHere }: UpdateRequest): Promise<void> {
    const updated = groups.flatMap(({ params }) => params);
    this.#requireOneOptimizer(new Set(updated));
    this.#requireKnown(updated);
    await this.begin();
    await updateHere();
    const { period, delay } = this.#times;
    const { outerSteps } = this.#progress;
    const updates = this.#progress.updates + 1;
    this.#progress = { updates, outerSteps };
    if (updates === period - delay) await this.#turn().send(this.#meeting);
    if (updates < period) return;
    await this.#turn().meet(this.#meeting);
    this.#progress = { updates: 0, outerSteps: outerSteps + 1 };
  }

  /**
   * Takes the values with which all ranks begin, unless it has them already. So weights may be loaded until the first
   * update. Throws CollectiveMismatchError on every rank if the ranks have different ones.
   */
  async begin(): Promise<void> {
    if (this.fragments.every(({ state }) => state !== null)) return;
    let hash = hashOffset;
    for (const fragment of this.fragments) {
      const values = await fragment.begin(this.#meeting);
      hash = mixed(hash, hashOfNumbers(bytesOf(values)));
    }
    await this.#requireSame(hash);
  }

  /** Takes an outer step of every fragment now, so that all ranks have one model. It is a collective. */
  async synchronize(): Promise<void> {
    await this.begin();
    for (const fragment of this.fragments) {
      if (fragment.mean !== null) await fragment.meet(this.#meeting);
    }
    const meeting = { ...this.#meeting, alpha: 0 };
    for (const fragment of this.fragments) {
      await fragment.send(meeting);
      await fragment.meet(meeting);
    }
    this.#progress = { updates: 0, outerSteps: 0 };
  }

  /** Goes on from where a run stood. The states of the fragments are restored separately. */
  restore(progress: Progress): void {
    this.#progress = progress;
  }

  #turn(): Fragment {
    const { outerSteps } = this.#progress;
    const fragment = this.fragments[outerSteps % this.fragments.length];
    if (fragment === undefined) throw new RangeError('outer steps without fragments');
    return fragment;
  }

  /** Every update counts, so that all parameters must be updated at the same time. */
  #requireOneOptimizer(updated: ReadonlySet<object>): void {
    this.#updated ??= updated;
    const known = this.#updated;
    if (updated.size === known.size && updated.isSubsetOf(known)) return;
    throw new ConfigError(
      {
        asked: `an update of ${updated.size} parameters under ${this.name}`,
        found: `the first update was one of ${known.size} parameters, and ranks meet after so many updates of all of them`,
        todo: 'Give one optimizer all parameters, in groups if their settings differ',
      },
      { parameters: updated.size, before: known.size },
    );
  }

  /** Throws ConfigError for a parameter that trains and that ranks would not agree on. */
  #requireKnown(updated: readonly object[]): void {
    const known = new Set<object>(this.fragments.flatMap(({ parts }) => parts));
    const frozen = updated.some((each) => {
      return each instanceof Tensor && each.part.requiresGrad && !known.has(each.part);
    });
    if (!frozen) return;
    throw new ConfigError({
      asked: `an update under ${this.name}`,
      found:
        'a parameter that trains now and was frozen when the strategy was applied, so that ranks would not share it',
      todo: 'Let all parameters train that ever will before parallelize(), and freeze them afterwards',
    });
  }

  async #requireSame(hash: number): Promise<void> {
    const { group } = this.#meeting;
    if (group.size === 1) return;
    const hashes = new Int32Array(group.size);
    await group.allGather(
      { bytes: new Uint8Array(Int32Array.of(hash).buffer), dtype: 'i32' },
      { bytes: new Uint8Array(hashes.buffer), dtype: 'i32' },
    );
    const rank = hashes.findIndex((each) => each !== hashes[0]);
    if (rank < 0) return;
    throw new CollectiveMismatchError(
      {
        asked: `the first update under ${this.name}`,
        found: `rank ${rank} has other values of the parameters than rank 0`,
        todo: 'Load the same weights on every rank; to go on in the middle of a run, load the state of the strategy (strategy.outer) with the model',
      },
      { rank },
    );
  }
}
