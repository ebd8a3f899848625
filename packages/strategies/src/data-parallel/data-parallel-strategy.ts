import {
  checkOptions,
  dtypes,
  elementCount,
  type Layout,
  LayoutError,
  type ParameterSpec,
  type Plan,
} from '@shardwise/core/extend';
import {
  DataParallel,
  type DataParallelOptions,
  dataParallelRules,
  type DataParallelStrategy,
} from './data-parallel.ts';
import { master } from './scatter-gather.ts';

/**
 * Data parallelism with a master (PyTorch's DataParallel) as a strategy. For what it teaches: rank 0
 * has all of the gradients and the optimizer, sends all parameters in every pass, and waits.
 */
export function dataParallel(options: DataParallelOptions = {}): DataParallelStrategy {
  checkOptions('dataParallel', options, dataParallelRules);
  const { axis = 'dp' } = options;
  return {
    name: 'dataParallel',
    plan(parameters, axes): Plan {
      const size = axes.find(({ name }) => name === axis)?.size;
      if (size === undefined) {
        throw new LayoutError(
          {
            asked: `dataParallel over the mesh axis '${axis}'`,
            found: `the axes ${axes.map(({ name }) => name).join(', ') || '(none)'}`,
            todo: 'Name an axis of the mesh',
          },
          { axis, axes },
        );
      }
      const trained = parameters.filter(({ requiresGrad }) => requiresGrad).toReversed();
      const alone = { axis, rank: master };
      return {
        strategy: 'dataParallel',
        axes,
        batch: { dims: [[axis]], partial: [] },
        parameters: parameters.map((parameter) => ({
          ...parameter,
          parameter: whole(parameter),
          gradient: { ...whole(parameter), only: alone },
          optimizer: { ...whole(parameter), only: alone },
        })),
        collectives:
          size === 1
            ? []
            : [
                {
                  operation: 'broadcast',
                  axis,
                  when: 'forward',
                  parameters: parameters.map(({ name }) => name),
                  bytes: bytesOf(parameters),
                },
                {
                  operation: 'reduce',
                  axis,
                  when: 'backward',
                  parameters: trained.map(({ name }) => name),
                  bytes: bytesOf(trained),
                },
              ],
      };
    },
    apply: (_, model) => DataParallel.create(model, options),
  };
}

function whole({ shape }: ParameterSpec): Layout {
  return { dims: shape.map(() => []), partial: [] };
}

function bytesOf(parameters: readonly ParameterSpec[]): number {
  return parameters.reduce(
    (sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes,
    0,
  );
}
