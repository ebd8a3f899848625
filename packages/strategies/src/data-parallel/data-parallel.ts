import {
  checkOptions,
  option,
  type OptionRules,
  replicated,
  type Strategy,
} from '@shardwise/core/extend';
import { master } from './master.ts';
import { MASTER } from './scatter-gather.ts';
import { requireAxis } from '../plan/axes.ts';
import { type ModelPlan, Step } from '../plan/step.ts';

/** Options of `dataParallel`. */
export interface DataParallelOptions {
  /** The mesh axis over which the batch is split. Default: `dp`. */
  readonly axis?: string;
}

const optionRules: OptionRules<DataParallelOptions> = { axis: option.axisName };

/**
 * Data parallelism with a master, like torch.nn.DataParallel with ranks instead of threads. It shows why other
 * strategies are faster: rank 0 has all gradients and the optimizer, sends all parameters in every pass, and waits.
 */
export function dataParallel(options: DataParallelOptions = {}): Strategy {
  checkOptions('dataParallel', options, optionRules);
  const { axis = 'dp' } = options;
  const alone = { axis, rank: MASTER };
  return {
    specificationVersion: 1,
    name: 'dataParallel',
    plan({ parameters }, axes): ModelPlan {
      requireAxis('dataParallel', axes, axis);
      return {
        strategy: 'dataParallel',
        axes,
        batch: { dims: [[axis]], partial: [] },
        parameters: parameters.map((each) => {
          const whole = replicated(each.shape);
          const only = { ...whole, only: alone };
          return { ...each, parameter: whole, gradient: only, optimizer: only };
        }),
        steps: [new Step(master, { axis })],
      };
    },
  };
}
