import { checkOptions, option, type OptionRules } from '@shardwise/core/extend';
import { gridSize, type RankGrid } from './rank-grid.ts';
import { summa } from './summa.ts';

/** Options of `twoDimensional`. */
export interface TwoDimensionalOptions {
  /** Mesh axes of the grid's rows and columns. Default: `row` and `column`. */
  readonly row?: string;
  readonly column?: string;
}

const twoDimensionalRules: OptionRules<TwoDimensionalOptions> = {
  row: option.axisName,
  column: option.axisName,
};

/** A grid of q × q ranks with products by SUMMA (Xu et al. 2021). Throws LayoutError if the axes differ in size. */
export function twoDimensional(options: TwoDimensionalOptions = {}): RankGrid {
  checkOptions('twoDimensional', options, twoDimensionalRules);
  const { row = 'row', column = 'column' } = options;
  const size = gridSize('2D', [row, column]);
  const grid: RankGrid = {
    name: '2D',
    rows: [row],
    features: column,
    weight: [[column], [row]],
    replicas: [],
    get next() {
      return grid;
    },
    multiply: (x, weight) => summa(x, weight, { row, column, size }),
  };
  return grid;
}
