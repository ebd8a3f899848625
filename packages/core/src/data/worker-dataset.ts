import { ConfigError } from '../spec/errors.ts';

/** A dataset that each worker of a data loader builds for itself. */
export interface WorkerDataset {
  /** What the worker imports: `new URL('./dataset.ts', import.meta.url)`, or a package's name. */
  readonly module: URL | string;
  /**
   * The name of the module's export that is the dataset, or a function that makes it from `arguments`. Default:
   * `default`.
   */
  readonly export?: string;
  /** The arguments of the exported function: plain data that is copied to every worker. */
  readonly arguments?: readonly unknown[];
  /** The name of an export that is the collate function. Default: samples are stacked. */
  readonly collate?: string;
  /** The number of items of the dataset. A worker that finds another number fails. */
  readonly length: number;
}

/** What a worker imports. Throws ConfigError for a path, which starts from nobody knows which folder. */
export function specifierOf(module: URL | string): string {
  if (module instanceof URL) return module.href;
  if (!/^\.{0,2}\//.test(module)) return module;
  throw new ConfigError(
    {
      asked: `a data loader's workers to import ${module}`,
      found: 'a path, which says nothing about whose folder it starts from',
      todo: `Pass new URL('${module}', import.meta.url), or a package's name`,
    },
    { module },
  );
}
