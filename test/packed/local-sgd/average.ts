import {
  allReduce,
  broadcast,
  currentSession,
  dtypes,
  elementCount,
  type Gradient,
  noGrad,
  type Parameter,
  reinterpret,
  type Tensor,
  type Update,
} from '@shardwise/core/extend';
import type { PassHooks, StepKind } from '@shardwise/strategies';
import type { LocalSteps } from './local-steps.ts';

/** Ranks train independently. After every few updates, parameters are replaced by their means. */
export interface Average {
  readonly axis: string;
  readonly every: number;
  readonly steps: LocalSteps;
}

export const average: StepKind<Average> = {
  name: 'average',
  collectives: ({ axis, every }, { axes, parameters }) => {
    if (axes.find(({ name }) => name === axis)?.size === 1) return [];
    return (['start', 'forward'] as const).flatMap((when) =>
      parameters.map(({ name, shape, dtype }) => ({
        operation: when === 'start' ? 'broadcast' : 'allReduce',
        axis,
        when,
        ...(when === 'forward' && { everySteps: every }),
        parameters: [name],
        bytes: elementCount(shape) * dtypes[dtype].bytes,
      })),
    );
  },
  async apply(data, { model, hooks }) {
    const parameters = model.parameters();
    noGrad(() => {
      for (const parameter of parameters) parameter.assign(broadcast(parameter, data.axis));
    });
    await currentSession().realize([]);
    for (const parameter of parameters) countUpdates(parameter, data.steps);
    hooks.push(averaging(parameters, data));
  },
};

function averaging(parameters: readonly Parameter[], data: Average): PassHooks {
  const { axis, every, steps } = data;
  return {
    beforeForward: () => {
      if (steps.count < every) return;
      steps.count = 0;
      noGrad(() => {
        for (const parameter of parameters) parameter.assign(meanOf(parameter, axis));
      });
    },
  };
}

/**
 * Returns the mean, which all ranks have. It is varying, because each rank goes on from it in its own way. Shape: N ->
 * N.
 */
function meanOf(parameter: Tensor, axis: string): Tensor {
  return reinterpret(allReduce(parameter, axis, { reduce: 'avg' }), axis, 'replicate', 'varying');
}

/** Leaves gradients unchanged and counts each update once, not once per parameter. */
function countUpdates(parameter: Parameter, steps: LocalSteps): void {
  const gradient: Gradient = parameter.reduceGradient({
    expect: () => {},
    arrive: () => {
      const { node } = gradient.local;
      if (node !== null) gradient.addReduced(node);
    },
    checkUpdate: (update: Update) => steps.note(update),
  });
}
