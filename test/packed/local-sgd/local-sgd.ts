import type { Layout, Strategy } from '@shardwise/core/extend';
import { type PlanContext, Step } from '@shardwise/strategies';
import { average } from './average.ts';
import { LocalSteps } from './local-steps.ts';

export interface LocalSgdOptions {
  /** The number of updates that each rank makes by itself before parameters are averaged. */
  readonly every: number;
  /** The axis of the ranks. Default: `dp`. */
  readonly axis?: string;
}

export interface LocalSgd extends Strategy<PlanContext> {
  /** The counter of updates. Save it with the model. */
  readonly steps: LocalSteps;
}

/**
 * Local SGD (Stich 2019) of one model. Ranks train separately on their batches, and from time to time all continue from
 * the mean of their parameters.
 */
export function localSgd({ every, axis = 'dp' }: LocalSgdOptions): LocalSgd {
  const steps = new LocalSteps();
  return {
    specificationVersion: 1,
    name: 'localSgd',
    steps,
    plan: ({ parameters }, axes) => ({
      strategy: 'localSgd',
      axes,
      batch: { dims: [[axis]], partial: [] },
      parameters: parameters.map((parameter) => {
        const dims = parameter.shape.map(() => []);
        const own: Layout = { dims, partial: [], varying: [axis] };
        return { ...parameter, parameter: own, gradient: own, optimizer: own };
      }),
      steps: [new Step(average, { axis, every, steps })],
    }),
  };
}
