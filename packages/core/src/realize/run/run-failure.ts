import type { Storage } from '../../graph/storage.ts';
import type { Page } from '../../paging/page.ts';
import type { Numbering } from '../values/values.ts';

/** The result of a root: memory, or a page. */
export type RootResult =
  | { readonly kind: 'storage'; readonly storage: Storage }
  | { readonly kind: 'page'; readonly page: Page };

/** A step of a plan failed. */
export class RunFailure extends Error {
  readonly numbering: Numbering;
  /** The values of the plan that the cause is about. */
  readonly values: readonly number[];
  /** Whether leaves were, or may have been, changed in place before the failure. */
  readonly updated: boolean;
  /** Whether collectives or transfers were started. */
  readonly started: boolean;
  /** The slots of the collectives that were issued. */
  readonly issued: ReadonlySet<number>;
  /** The result of each root. Null for roots that the run did not compute. */
  readonly results: readonly (RootResult | null)[];

  constructor(
    numbering: Numbering,
    values: readonly number[],
    { updated, started }: { readonly updated: boolean; readonly started: ReadonlySet<number> },
    results: readonly (RootResult | null)[],
    cause: unknown,
  ) {
    super('a step of a plan failed', { cause });
    this.numbering = numbering;
    this.values = values;
    this.updated = updated;
    this.started = started.size > 0;
    this.issued = new Set([...started].flatMap((id) => numbering.senders.get(id) ?? []));
    this.results = results;
  }
}
