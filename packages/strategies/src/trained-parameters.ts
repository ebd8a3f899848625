import { CollectiveMismatchError, currentSession, type Tensor } from '@shardwise/core/extend';
import { RankAgreement } from './rank-agreement.ts';

/** Which parameters train. That may change between passes, on all ranks alike. */
export class TrainedParameters {
  readonly #named: readonly (readonly [name: string, parameter: Tensor])[];
  readonly #axis: string;
  readonly #agreement: RankAgreement;
  #flags: readonly boolean[];

  /** All ranks must have the same ones now. */
  constructor(named: readonly (readonly [name: string, parameter: Tensor])[], axis: string) {
    this.#named = named;
    this.#axis = axis;
    this.#flags = this.#current();
    this.#agreement = new RankAgreement([axis], this.#flags.join(' '));
  }

  /** Whether each parameter trained at the latest refresh. */
  get flags(): readonly boolean[] {
    return this.#flags;
  }

  /** Looks anew which parameters train. Returns whether that has changed, which is then a collective of the graph. */
  refresh(): boolean {
    const flags = this.#current();
    if (flags.every((flag, index) => flag === this.#flags[index])) return false;
    this.#flags = flags;
    this.#agreement.say(flags.join(' '));
    return true;
  }

  /** Throws CollectiveMismatchError where it is known by now that ranks train different ones. */
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
