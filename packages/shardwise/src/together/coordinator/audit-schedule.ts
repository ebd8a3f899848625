/** Updates that are left for the audit itself, so that a cheat is found within 2 / share updates. */
const SPARED = 4;

/**
 * Draws which updates of a member are made again by others. The share is an average. Half of the audits have a random
 * place in each block of nearly 2 / share updates, so that no member is left out for longer; the others may come at any
 * time, so that nobody knows of an update that none is drawn.
 */
export class AuditSchedule {
  readonly #random: () => number;
  readonly #blockLength: number;
  /** The probability of an audit beside that of the block. */
  readonly #others: number;
  #at = 0;
  #place = 0;

  /** `random` gives numbers from 0 below 1. */
  constructor(share: number, random: () => number) {
    this.#random = random;
    this.#blockLength = Math.max(Math.ceil(1 / share), Math.floor(2 / share) - SPARED);
    const inBlocks = 1 / this.#blockLength;
    this.#others = inBlocks >= share ? 0 : (share - inBlocks) / (1 - inBlocks);
  }

  /** Whether the next update is to be made again. Call it once for each, when it has arrived. */
  draw(): boolean {
    if (this.#at === 0) this.#place = Math.floor(this.#random() * this.#blockLength);
    const isPlace = this.#at === this.#place;
    this.#at = (this.#at + 1) % this.#blockLength;
    return this.#random() < this.#others || isPlace;
  }
}
