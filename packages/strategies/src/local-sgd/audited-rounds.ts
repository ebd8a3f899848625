import {
  ConfigError,
  Generator,
  hashOffset,
  mixed,
  type Optimizer,
  randomState,
  setRandomState,
} from '@shardwise/core/extend';
import type { Fragment } from './fragment.ts';
import type { AuditTask, UpdateTrace } from './members/members.ts';
import { bytesOf, encodeUpdate, type OuterBits } from './messages/outer-messages.ts';
import type { AuditOptions } from './members/audit-options.ts';

/** A round that this member is in. */
interface PresentRound {
  readonly round: number;
  /** Decides which samples are drawn. */
  readonly seed: number;
  readonly optimizer: Optimizer;
  /** The number of updates so far. */
  made: number;
  /** The values in the middle of the round. Shape: [n]. */
  middle: Float32Array | null;
}

/** What stays the same for all rounds. */
export interface AuditedRun {
  readonly strategy: string;
  readonly audit: AuditOptions;
  /** The number of updates of a round. */
  readonly every: number;
  readonly bits: OuterBits;
}

/** The states with which so many rounds began are kept for those who make an update of them again. */
const KEPT_ROUNDS = 4;

/**
 * Makes the updates of a member in such a way that others can make them again: each round begins with the state of the run
 * and a new optimizer, and the samples and all random numbers follow from a seed.
 */
export class AuditedRounds {
  readonly #run: AuditedRun;
  readonly #fragment: Fragment;
  readonly #anchors = new Map<number, Float32Array>();
  #present: PresentRound | null = null;
  /** The calls of `optimizer.step()` in the present call of `step`. Null between them. */
  #steps: number | null = null;

  constructor(run: AuditedRun, fragment: Fragment) {
    this.#run = run;
    this.#fragment = fragment;
  }

  /**
   * Makes one update of fixed values with fixed samples, twice, and returns the values after it. Members with the same
   * values compute alike. Throws ConfigError if the second update gave other bits.
   */
  async probe(): Promise<Uint8Array> {
    const fixed = Float32Array.from(
      { length: this.#fragment.elements },
      (_, at) => ((Math.imul(at + 1, 0x9e3779b1) >>> 0) / 2 ** 32 - 0.5) / 10,
    );
    const once = async (): Promise<Uint8Array> => {
      const round = await this.#begin(fixed, 0, 0);
      await this.#update(round);
      const values = bytesOf(await this.#fragment.values());
      end(round);
      return values;
    };
    const [first, second] = [await once(), await once()];
    if (!first.every((byte, at) => byte === second[at])) throw this.#notReproducible();
    await this.rewind();
    return first;
  }

  /** Makes the next update of a round. `seed` counts only for the first one. Returns the loss. */
  async update(round: number, seed: number): Promise<number> {
    let present = this.#present;
    if (present?.round !== round) {
      const anchor = this.#anchor().slice();
      this.#anchors.set(round, anchor);
      for (const old of this.#anchors.keys()) {
        if (old <= round - KEPT_ROUNDS || old > round) this.#anchors.delete(old);
      }
      present = await this.#begin(anchor, round, seed);
      this.#present = present;
    }
    return this.#update(present);
  }

  /** Ends the present round. Returns what shows how its update was made. */
  end(): { readonly seed: number; readonly middle: Uint8Array } {
    const round = this.#present;
    if (round === null || round.middle === null) throw new RangeError('a round without updates');
    this.#present = null;
    end(round);
    return { seed: round.seed, middle: bytesOf(round.middle) };
  }

  /** Goes back to the values that all members have in common. */
  async rewind(): Promise<void> {
    this.#present = null;
    await this.#fragment.assign(this.#anchor());
  }

  /** Makes the update of another member again, between two rounds. Null: the state that it began with is not kept any more. */
  async again({ round, seed }: AuditTask): Promise<UpdateTrace | null> {
    const anchor = this.#anchors.get(round);
    if (anchor === undefined) return null;
    const made = await this.#begin(anchor, round, seed);
    while (made.made < this.#run.every) await this.#update(made);
    const own = await this.#fragment.values();
    const learned = own.map((value, at) => (anchor[at] ?? 0) - value);
    end(made);
    await this.rewind();
    if (made.middle === null) throw new RangeError('a round without a middle');
    return { message: encodeUpdate(learned, this.#run.bits), middle: bytesOf(made.middle) };
  }

  /** Called for each `optimizer.step()`. Throws ConfigError for one that others could not make again. */
  async step(updateHere: () => Promise<void>): Promise<void> {
    if (this.#steps === null) {
      throw new ConfigError({
        asked: `optimizer.step() under ${this.#run.strategy} with \`audit\``,
        found:
          'an update that others could not make again, because its samples were not drawn for it',
        todo: 'Call `await strategy.outer.update()` in the loop, which calls `audit.step`',
      });
    }
    this.#steps += 1;
    await updateHere();
  }

  #anchor(): Float32Array {
    const { state } = this.#fragment;
    if (state === null) throw new RangeError('a round before the first state');
    return state.anchor;
  }

  async #begin(values: Float32Array, round: number, seed: number): Promise<PresentRound> {
    await this.#fragment.assign(values);
    return { round, seed, optimizer: this.#run.audit.optimizer(), made: 0, middle: null };
  }

  async #update(present: PresentRound): Promise<number> {
    const { audit, every } = this.#run;
    const { round, seed, optimizer, made } = present;
    const drawn = [seed, round, made].reduce(mixed, hashOffset);
    const generator = new Generator(drawn >>> 0);
    const indices = Array.from(generator.randint(0, audit.samples, audit.batchSize));
    const before = randomState();
    setRandomState({ generator: generator.getState(), seed: drawn, counter: 0 });
    this.#steps = 0;
    let loss: number;
    try {
      loss = await audit.step({ indices, optimizer, update: round * every + made });
      if (this.#steps !== 1) throw this.#wrongSteps(this.#steps);
    } finally {
      this.#steps = null;
      setRandomState(before);
    }
    present.made += 1;
    if (present.made === Math.floor(every / 2)) present.middle = await this.#fragment.values();
    return loss;
  }

  #wrongSteps(steps: number): ConfigError {
    return new ConfigError(
      {
        asked: `an update under ${this.#run.strategy} with \`audit\``,
        found: `${steps} calls of optimizer.step() in one call of audit.step`,
        todo: 'Call the step() of the optimizer that audit.step gets, once',
      },
      { steps },
    );
  }

  #notReproducible(): ConfigError {
    return new ConfigError({
      asked: `${this.#run.strategy} with \`audit\``,
      found:
        'an audit.step that gives other bits when it is called again with the same parameters and samples',
      todo: 'Let it depend on nothing else: no other random numbers or counters, a new optimizer from audit.optimizer, and no state of the model beside its parameters',
    });
  }
}

/** Gives back the memory of the optimizer's states. */
function end({ optimizer }: PresentRound): void {
  optimizer.restore(new Map(), []);
}
