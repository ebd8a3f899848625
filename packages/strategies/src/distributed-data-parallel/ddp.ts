import {
  checkOptions,
  type DType,
  dtypes,
  elementCount,
  type Layout,
  LayoutError,
  type Plan,
} from '@shardwise/core/extend';
import { checkMixedPrecision } from '../mixed-precision/check-mixed-precision.ts';
import { gradientDtypeOf } from '../mixed-precision/mixed-precision.ts';
import { assignBuckets, bucketBytes, firstBucketBytes } from './buckets.ts';
import {
  ddpOptionRules,
  DistributedDataParallel,
  type DistributedDataParallelOptions,
  type DistributedDataParallelStrategy,
} from './distributed-data-parallel.ts';

function replicated(shape: readonly number[]): Layout {
  return { dims: shape.map(() => []), partial: [] };
}

/** Data parallelism with replicated states (PyTorch's DistributedDataParallel) as a strategy. Throws ConfigError for options out of range. */
export function ddp(options: DistributedDataParallelOptions = {}): DistributedDataParallelStrategy {
  checkOptions('ddp', options, ddpOptionRules);
  const { mixedPrecision } = options;
  checkMixedPrecision(mixedPrecision);
  const axis = options.axis ?? 'dp';
  const limit = options.bucketBytes ?? bucketBytes;
  return {
    name: 'ddp',
    plan(parameters, axes): Plan {
      const size = axes.find(({ name }) => name === axis)?.size;
      if (size === undefined) {
        throw new LayoutError(
          {
            asked: `ddp over the mesh axis '${axis}'`,
            found: `the axes ${axes.map(({ name }) => name).join(', ') || '(none)'}`,
            todo: 'Name an axis of the mesh',
          },
          { axis, axes },
        );
      }
      const bytesOf = (names: readonly string[], sent?: DType): number =>
        parameters
          .filter((p) => names.includes(p.name))
          .reduce((sum, p) => sum + elementCount(p.shape) * dtypes[sent ?? p.dtype].bytes, 0);
      const gradientDtype = gradientDtypeOf(mixedPrecision);
      const trained = parameters
        .filter((p) => p.requiresGrad)
        .map((p) => ({ ...p, dtype: gradientDtype ?? p.dtype }))
        .toReversed();
      const buckets = assignBuckets(trained, [Math.min(firstBucketBytes, limit), limit]).map(
        ({ indices }) => indices.flatMap((index) => trained[index]?.name ?? []),
      );
      const all = parameters.map((p) => p.name);
      return {
        strategy: 'ddp',
        axes,
        batch: { dims: [[axis]], partial: [] },
        parameters: parameters.map((p) => ({
          ...p,
          parameter: replicated(p.shape),
          gradient: replicated(p.shape),
          optimizer: replicated(p.shape),
        })),
        collectives:
          size === 1
            ? []
            : [
                {
                  operation: 'broadcast',
                  axis,
                  when: 'start',
                  parameters: all,
                  bytes: bytesOf(all),
                },
                ...buckets.map((names) => ({
                  operation: 'allReduce',
                  axis,
                  when: 'backward' as const,
                  parameters: names,
                  bytes: bytesOf(names, gradientDtype),
                })),
              ],
        ...(mixedPrecision === undefined || gradientDtype === undefined
          ? {}
          : { lowPrecision: { parameterDtype: mixedPrecision.parameterDtype, gradientDtype } }),
      };
    },
    apply: (_, model) => DistributedDataParallel.create(model, options),
  };
}
