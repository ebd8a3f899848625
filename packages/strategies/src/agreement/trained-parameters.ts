import {
  CollectiveMismatchError,
  currentSession,
  hashOf,
  type Tensor,
} from '@shardwise/core/extend';
import { GatheredInts } from './gathered-ints.ts';

/** Tracks which parameters train. This may change between passes if it changes alike on all ranks. */
export class TrainedParameters {
  readonly #named: readonly (readonly [name: string, parameter: Tensor])[];
  readonly #axis: string;
  readonly #agreement: RankAgreement;
  #flags: readonly boolean[];

  /** All ranks must train the same parameters now. `model` is what names of its collectives end with. */
  constructor(
    named: readonly (readonly [name: string, parameter: Tensor])[],
    axis: string,
    model: string,
  ) {
    this.#named = named;
    this.#axis = axis;
    this.#flags = this.#current();
    this.#agreement = new RankAgreement(
      [axis],
      this.#flags.join(' '),
      `the parameters that train${model}`,
    );
  }

  /** Whether each parameter trained at the latest refresh. */
  get flags(): readonly boolean[] {
    return this.#flags;
  }

  /** Updates which parameters train. Returns whether this has changed. A change adds a collective to the graph. */
  refresh(): boolean {
    const flags = this.#current();
    if (flags.every((flag, index) => flag === this.#flags[index])) return false;
    this.#flags = flags;
    this.#agreement.update(flags.join(' '));
    return true;
  }

  /** Throws CollectiveMismatchError if it is known by now that ranks train different parameters. */
  check(): void {
    const other = this.#agreement.differingRank();
    if (other !== undefined) throw this.#difference(other);
  }

  #current(): readonly boolean[] {
    return this.#named.map(([, { requiresGrad }]) => requiresGrad);
  }

  #difference(other: number): CollectiveMismatchError {
    const frozen = this.#named.flatMap(([name], index) => (this.#flags[index] ? [] : [name]));
    const { rank } = currentSession().mesh.group(this.#axis);
    return new CollectiveMismatchError(
      {
        asked: 'to train the same parameters on all ranks',
        found: `rank ${other} has frozen other parameters than rank 0; frozen on this rank (${rank}): ${frozen.join(', ') || 'none'}`,
        todo: 'Call requiresGrad_ for the same parameters on every rank, before the same pass',
      },
      { rank: other, frozen },
    );
  }
}

/**
 * Checks a text that must be the same on all ranks of some axes. When a rank's text changes, it sends the others a hash
 * in the program that first uses the new text. The texts are compared after this program has run.
 */
class RankAgreement {
  readonly #hashes: GatheredInts;
  #latest: string;

  /** `initial` is the text that all ranks have now, and `what` says what it is about. */
  constructor(axes: readonly string[], initial: string, what: string) {
    this.#hashes = new GatheredInts(axes, what);
    this.#latest = initial;
  }

  /** Sets the text. If it differs from the latest one, this adds a collective to the graph. */
  update(text: string): void {
    if (text === this.#latest) return;
    this.#latest = text;
    this.#hashes.send(Int32Array.of(hashOf(text)));
  }

  /** Returns the first rank that is known to have had another text than rank 0. Undefined if there is none so far. */
  differingRank(): number | undefined {
    for (let all = this.#hashes.poll(); all !== undefined; all = this.#hashes.poll()) {
      const other = all.findIndex((hash, _, [first]) => hash !== first);
      if (other >= 0) return other;
    }
    return undefined;
  }
}
