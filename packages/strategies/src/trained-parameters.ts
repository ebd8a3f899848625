import {
  allGather,
  CollectiveMismatchError,
  currentSession,
  fromData,
  noGrad,
  type Tensor,
} from '@shardwise/core';
import { bytesNow } from './bytes-now.ts';

/**
 * Which parameters train. That may change between passes, on all ranks alike: each rank's choice
 * travels in the program that first has it, and is compared once that has run.
 */
export class TrainedParameters {
  readonly #named: readonly (readonly [name: string, parameter: Tensor])[];
  readonly #axis: string;
  readonly #sent: Tensor[] = [];
  #flags: readonly boolean[];

  /** All ranks must have the same ones now. */
  constructor(named: readonly (readonly [name: string, parameter: Tensor])[], axis: string) {
    this.#named = named;
    this.#axis = axis;
    this.#flags = this.#current();
  }

  /** By parameter, as of the latest refresh. */
  get flags(): readonly boolean[] {
    return this.#flags;
  }

  /** Whether they have changed. A collective of the graph, if so. */
  refresh(): boolean {
    const flags = this.#current();
    if (flags.every((flag, index) => flag === this.#flags[index])) return false;
    this.#flags = flags;
    const own = fromData(Int32Array.of(hashOf(flags)), [1], 'i32');
    this.#sent.push(noGrad(() => allGather(own, this.#axis, 0)).retain());
    return true;
  }

  /** Throws CollectiveMismatchError where it is known by now that ranks train different ones. */
  check(): void {
    for (let [sent] = this.#sent; sent !== undefined; [sent] = this.#sent) {
      const bytes = bytesNow(sent);
      if (bytes === undefined) return;
      const hashes = new Int32Array(bytes.slice().buffer);
      this.#sent.shift();
      sent.dispose();
      const other = hashes.findIndex((hash) => hash !== hashes[0]);
      if (other >= 0) throw this.#difference(other);
    }
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
        found: `rank ${other} has frozen other ones than rank 0; frozen on this rank (${rank}): ${frozen.join(', ') || 'none'}`,
        todo: 'Call requiresGrad_ for the same parameters on every rank, before the same pass',
      },
      { rank: other, frozen },
    );
  }
}

/** FNV-1a. */
function hashOf(flags: readonly boolean[]): number {
  let hash = 0x811c9dc5 | 0;
  for (const flag of flags) hash = Math.imul(hash ^ (flag ? 1 : 2), 0x01000193);
  return hash;
}
