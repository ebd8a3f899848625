import { dist } from 'shardwise';

export type GridName = '2D' | '2.5D' | '3D';

export interface GridAxis {
  readonly name: string;
  readonly size: number;
}

export interface GridCase {
  readonly grid: GridName;
  readonly axes: readonly GridAxis[];
}

/** The number of ranks along a side. */
export const q = 2;

const square: readonly GridAxis[] = [
  { name: 'row', size: q },
  { name: 'column', size: q },
];

export const gridCases: readonly GridCase[] = [
  { grid: '2D', axes: square },
  { grid: '2.5D', axes: [{ name: 'depth', size: 1 }, ...square] },
  { grid: '2.5D', axes: [{ name: 'depth', size: 2 }, ...square] },
  { grid: '3D', axes: ['input', 'weight', 'output'].map((name) => ({ name, size: q })) },
];

export const gridOf: Readonly<Record<GridName, () => dist.styles.RankGrid>> = {
  '2D': () => dist.twoDimensional(),
  '2.5D': () => dist.twoAndAHalfDimensional(),
  '3D': () => dist.threeDimensional(),
};

/**
 * The sizes of a block. Sequences are long, so that terms that are proportional to the rows alone count little. There
 * are so many that no activation fits the memory of a gradient, in which it would not be counted.
 */
export const blockSizes = { batch: 32, context: 128, channels: 128, heads: 4 } as const;

export function worldSizeOf({ axes }: GridCase): number {
  return axes.reduce((product, { size }) => product * size, 1);
}
