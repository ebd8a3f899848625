import type { PageStore } from '@shardwise/core/extend';
import type { StepKind } from '../step.ts';

/** Parts of parameters lie outside the device between their uses. */
export interface PageOut {
  readonly parameters: readonly string[];
  readonly store: PageStore;
}

/** Stands before the step that shards them, so that they are never all on the device. */
export const page: StepKind<PageOut> = {
  name: 'page',
  collectives: () => [],
  apply({ parameters, store }, context) {
    const names = new Set(parameters);
    context.whenSharded(async (name, part) => {
      if (names.has(name)) await part.pageOut(name, store);
    });
  },
};
