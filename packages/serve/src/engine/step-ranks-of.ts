import { ConfigError } from '@shardwise/core/extend';
import type { ModelFacts } from '@shardwise/models';
import type { PagedCacheOptions } from '../cache/paged-cache.ts';
import { StepRanks } from '../cache/step-order.ts';
import type { EngineOptions } from './engine-options.ts';

/**
 * The ranks that have parts of a model and compute its steps together. Null if this rank has all of it. Throws ConfigError
 * for a model that is divided in another way than by tensor parallelism over one axis, and for options that other ranks
 * would not follow.
 */
export function stepRanksOf(
  facts: ModelFacts,
  sizes: PagedCacheOptions,
  { preemption, adapters }: Pick<EngineOptions, 'preemption' | 'adapters'>,
): StepRanks | null {
  const { sharedAxes, sameRowsAxes, hasStages, module } = facts;
  const [axis, ...more] = sharedAxes;
  if (axis === undefined) return null;
  if (preemption === 'swap' || adapters !== undefined) throw onlyWhole(facts);
  if (more.length === 0 && sameRowsAxes.length === 1 && !hasStages) {
    return new StepRanks(axis, sizes);
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

/** Orders of steps say neither what is swapped, nor have the ranks parts of adapters. */
function onlyWhole({ module, sharedAxes }: ModelFacts): ConfigError {
  return new ConfigError(
    {
      asked: `an engine with a ${module.architecture} that swaps blocks, or has adapters`,
      found: `a model of which the ranks of ${sharedAxes.join(', ')} have parts`,
      todo: "Leave out `preemption: 'swap'` and `adapters`, or give an engine on each rank a whole model",
    },
    { axes: sharedAxes },
  );
}
