import type { Layout, Strategy } from '@shardwise/core/extend';
import { explain } from '@shardwise/strategies';

/** A strategy without communication: each rank has its own parameters, gradients and states. */
export function independent(): Strategy {
  return {
    specificationVersion: 1,
    name: 'independent',
    plan: ({ parameters }, axes) => ({
      strategy: 'independent',
      axes,
      batch: { dims: [axes.map(({ name }) => name)], partial: [] },
      parameters: parameters.map((parameter) => {
        const layout: Layout = {
          dims: parameter.shape.map(() => []),
          partial: [],
          varying: axes.map(({ name }) => name),
        };
        return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
      }),
      steps: [],
    }),
  };
}

const parameters = [{ name: 'weight', shape: [2, 3], dtype: 'f32', requiresGrad: true }] as const;
console.log(explain(independent().plan({ parameters }, [{ name: 'dp', size: 2 }])));
// prints independent on dp=2
// prints no communication
