import type { ParallelStyle } from './parallel-style.ts';

/**
 * A module in which each rank draws its own random numbers, because ranks compute different parts of its activations.
 * Attention with dropout is such a module if its projections divide the heads. What comes after the projection must
 * not drop anything inside of it, as all ranks have the same values there.
 */
export function ownDraws(): ParallelStyle {
  return {
    name: 'ownDraws',
    kind: {},
    parameters: {},
    inputs: { forward: [] },
    output: null,
    drawsOwn: true,
  };
}
