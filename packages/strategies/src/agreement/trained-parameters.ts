import { CollectiveMismatchError, currentSession, type Tensor } from '@shardwise/core/extend';
import { RankAgreement } from './rank-agreement.ts';

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
    this.#agreement.say(flags.join(' '));
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
