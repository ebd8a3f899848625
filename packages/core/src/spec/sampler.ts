/** Which items of a dataset this rank visits in an epoch, in order. */
export interface Sampler extends Iterable<number> {
  /** Items per epoch. */
  readonly length: number;
  /** Call at the start of each epoch; a sampler that shuffles gives another order for another epoch. */
  setEpoch(epoch: number): void;
}
