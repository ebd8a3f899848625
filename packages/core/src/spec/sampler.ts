/** The items of a dataset that this rank visits in an epoch, in order. */
export interface Sampler extends Iterable<number> {
  /** The number of items of an epoch. */
  readonly length: number;
  /** Call it at the start of each epoch. A sampler that shuffles has another order in each epoch. */
  setEpoch(epoch: number): void;
}
