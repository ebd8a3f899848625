import {
  allGather,
  checkOptions,
  functional,
  option,
  type OptionRules,
  reduceScatter,
} from '@shardwise/core/extend';
import { gridSize } from './grid-size.ts';
import type { RankGrid } from './rank-grid.ts';

/** The axes of the cube. Default: `input`, `weight` and `output`. */
export interface ThreeDimensionalOptions {
  readonly input?: string;
  readonly weight?: string;
  readonly output?: string;
}

const threeDimensionalRules: OptionRules<ThreeDimensionalOptions> = {
  input: option.axisName,
  weight: option.axisName,
  output: option.axisName,
};

/**
 * q × q × q ranks (Agarwal et al. 1995; Bian et al. 2021): each matrix is cut into q³ parts. A product
 * gathers x along one axis and W along another, and scatters its sum along the third; then the axes
 * have changed their roles, and two products bring them back. Throws LayoutError where they differ in size.
 */
export function threeDimensional(options: ThreeDimensionalOptions = {}): RankGrid {
  checkOptions('threeDimensional', options, threeDimensionalRules);
  const { input = 'input', weight = 'weight', output = 'output' } = options;
  gridSize('3D', [input, weight, output]);
  return cube(weight, input, output);
}

/** x lies with its rows over `outer`, `inner` and its features over `features`. */
function cube(outer: string, inner: string, features: string): RankGrid {
  return {
    name: '3D',
    rows: [outer, inner],
    features,
    weight: [[inner], [features, outer]],
    replicas: [],
    get next() {
      return cube(outer, features, inner);
    },
    multiply(x, weight) {
      const product = functional.linear(allGather(x, inner, 0), allGather(weight, outer, 1));
      return reduceScatter(product, features, 0);
    },
  };
}
