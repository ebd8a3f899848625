import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { gridSize, type RankGrid } from './rank-grid.ts';
import { summa } from './summa.ts';

/** Options of `twoAndAHalfDimensional`. */
export interface TwoAndAHalfDimensionalOptions {
  /** Mesh axes. Default: `depth`, `row` and `column`. */
  readonly depth?: string;
  readonly row?: string;
  readonly column?: string;
}

const twoAndAHalfDimensionalRules: OptionRules<TwoAndAHalfDimensionalOptions> = {
  depth: option.axisName,
  row: option.axisName,
  column: option.axisName,
};

/**
 * d layers of q × q ranks (Wang et al. 2021, "Tesseract"). Each layer has its part of the batch and all
 * weights. Gradients of the weights are summed over the layers. Throws LayoutError if row and column differ in
 * size.
 */
export function twoAndAHalfDimensional(options: TwoAndAHalfDimensionalOptions = {}): RankGrid {
  checkOptions('twoAndAHalfDimensional', options, twoAndAHalfDimensionalRules);
  const { depth = 'depth', row = 'row', column = 'column' } = options;
  const size = gridSize('2.5D', [row, column]);
  const grid: RankGrid = {
    name: '2.5D',
    rows: [depth, row],
    features: column,
    weight: [[column], [row]],
    replicas: [depth],
    get next() {
      return grid;
    },
    multiply: (x, weight) => summa(x, weight, { row, column, size }),
  };
  return grid;
}
