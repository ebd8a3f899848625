import type { Layout, Strategy } from '@shardwise/core/extend';
import { type PlanContext, Step } from '@shardwise/strategies';
import { average } from './average.ts';
import { LocalSteps } from './local-steps.ts';

export interface LocalSgdOptions {
  /** Updates that each rank makes by itself before parameters are averaged. */
  readonly every: number;
  /** Default: `dp`. */
  readonly axis?: string;
}

export interface LocalSgd extends Strategy<PlanContext> {
  /** To be saved with the model. */
  readonly steps: LocalSteps;
}

/** Local SGD (Stich 2019): ranks train apart on their batches, and now and then begin again from their mean. Of one model. */
export function localSgd({ every, axis = 'dp' }: LocalSgdOptions): LocalSgd {
  const steps = new LocalSteps();
  return {
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
