import {
  allGather,
  checkOptions,
  functional,
  option,
  type OptionRules,
  reduceScatter,
} from '@shardwise/core/extend';
import { gridSize, type RankGrid } from './rank-grid.ts';

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
 * A cube of q × q × q ranks (Agarwal et al. 1995; Bian et al. 2021). Each matrix is cut into q³ parts. A
 * product gathers x along one axis and W along another one, and scatters its sum along the third. Then the axes
 * have changed their roles; after two products they have their first roles again. Throws LayoutError if the
 * axes differ in size.
 */
export function threeDimensional(options: ThreeDimensionalOptions = {}): RankGrid {
  checkOptions('threeDimensional', options, threeDimensionalRules);
  const { input = 'input', weight = 'weight', output = 'output' } = options;
  gridSize('3D', [input, weight, output]);
  return cube(weight, input, output);
}

/** Makes a grid in which the rows of x lie over `outer` and `inner`, and its features over `features`. */
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
