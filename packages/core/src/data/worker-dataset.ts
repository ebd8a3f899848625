/** A dataset that each worker of a data loader builds for itself. */
export interface WorkerDataset {
  /** What the worker imports: `new URL('./dataset.ts', import.meta.url)`, or a package's name. */
  readonly module: URL | string;
  /**
   * The module's export that is the dataset, or a function (of `arguments`) that makes it;
   * `default` by default.
   */
  readonly export?: string;
  /** Plain data: copied to every worker. */
  readonly arguments?: readonly unknown[];
  /** Name of an export that is the collate function; samples are stacked by default. */
  readonly collate?: string;
  /** Items of the dataset. A worker that finds another number fails. */
  readonly length: number;
}
