import { ConfigError } from '@shardwise/core/extend';
import type { ModelFacts } from '@shardwise/models';
import type { PagedCacheOptions } from '../cache/paged-cache.ts';
import { StepRanks } from '../cache/step-order.ts';

/**
 * The ranks that have parts of a model and compute its steps together. Null if this rank has all of it. `adapters` are the
 * names of those that requests may name. Throws ConfigError for a model that is divided in another way than by tensor
 * parallelism over one axis.
 */
export function stepRanksOf(
  { sharedAxes, sameRowsAxes, hasStages, module }: ModelFacts,
  sizes: PagedCacheOptions,
  adapters: readonly string[],
): StepRanks | null {
  const [axis, ...more] = sharedAxes;
  if (axis === undefined) return null;
  if (more.length === 0 && sameRowsAxes.length === 1 && !hasStages) {
    return new StepRanks(axis, sizes, adapters);
  }
  throw new ConfigError(
    {
      asked: `an engine with a ${module.architecture}`,
      found: `a model of which the ranks of ${sharedAxes.join(', ')} have parts, with stages or other rows on each rank`,
      todo: 'Divide it with tensorParallel(), give an engine on each rank a whole model, or use generate() of @shardwise/models',
    },
    { axes: sharedAxes },
  );
}
