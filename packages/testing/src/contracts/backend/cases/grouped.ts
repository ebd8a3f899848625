import type { Shape } from '@shardwise/core/spec';
import { at, NdArray } from '../../../interpreter/nd-array.ts';
import { f32, i32, integers } from '../host-value.ts';
import type { OpCase } from '../op-case.ts';

/** A case whose result is known in closed form. */
export interface GroupedCase extends OpCase {
  readonly expected: NdArray;
}

/** The number of rows of each group, and of the rows behind them, which belong to no group. */
interface Groups {
  readonly title: string;
  readonly counts: readonly number[];
  readonly spare?: number;
}

const groupings: readonly Groups[] = [
  { title: 'groups of several sizes', counts: [3, 1, 5] },
  { title: 'a group without rows at each end', counts: [0, 4, 0, 2, 0] },
  { title: 'rows of no group', counts: [2, 3], spare: 4 },
  { title: 'no rows in any group', counts: [0, 0], spare: 3 },
  { title: 'no rows', counts: [0, 0] },
  { title: 'one group', counts: [7] },
  { title: 'groups of many rows', counts: [33, 0, 50, 14], spare: 5 },
];
const widths = [
  { depth: 2, columns: 3 },
  { depth: 65, columns: 33 },
] as const;

/** Cases whose results are computed product by product. The elements are integers, so sums are exact in any order. */
export const groupedCases: Readonly<
  Record<'groupedMatmul' | 'groupedMatmulWeight', () => readonly GroupedCase[]>
> = {
  groupedMatmul: () => [
    ...groupings.flatMap((groups) =>
      widths.flatMap((width) => [
        multiplied(groups, width, false),
        multiplied(groups, width, true),
      ]),
    ),
    besides(),
  ],
  groupedMatmulWeight: () =>
    groupings.flatMap((groups) => widths.map((width) => weights(groups, width))),
};

interface Width {
  readonly depth: number;
  readonly columns: number;
}

/** Returns the group of each row, or -1 for a row of no group. */
function groupsOf({ counts, spare = 0 }: Groups): number[] {
  const own = counts.flatMap((count, group) => Array.from({ length: count }, () => group));
  return [...own, ...Array.from({ length: spare }, () => -1)];
}

function multiplied(groups: Groups, { depth, columns }: Width, transposeB: boolean): GroupedCase {
  const rowGroups = groupsOf(groups);
  const rows = rowGroups.length;
  const { counts } = groups;
  const shape: Shape = [counts.length, ...(transposeB ? [columns, depth] : [depth, columns])];
  const [x, w] = [integers([rows, depth], 1), integers(shape, 2)];
  const expected = rowGroups.flatMap((group, row) =>
    Array.from({ length: columns }, (_, column) => {
      if (group < 0) return 0;
      let sum = 0;
      for (let k = 0; k < depth; k++) {
        const inner = transposeB ? column * depth + k : k * columns + column;
        sum += at(x.values, row * depth + k) * at(w.values, group * depth * columns + inner);
      }
      return sum;
    }),
  );
  return {
    title: `${groups.title}, ${rows} rows of ${depth} to ${columns}${transposeB ? ', transposed' : ''}`,
    operation: { op: 'groupedMatmul', params: { transposeB } },
    inputs: [x, w, i32([counts.length], counts)],
    expected: f32([rows, columns], expected),
  };
}

/** Makes a case in which values that are not finite must not affect the rows of other groups. */
function besides(): GroupedCase {
  const x = f32([3, 1], [1, NaN, 2]);
  const w = f32([2, 1, 1], [Infinity, 3]);
  return {
    title: 'keeps what is not finite to its group and row',
    operation: { op: 'groupedMatmul', params: { transposeB: false } },
    inputs: [x, w, i32([2], [1, 2])],
    expected: f32([3, 1], [Infinity, NaN, 6]),
  };
}

function weights(groups: Groups, { depth, columns }: Width): GroupedCase {
  const rowGroups = groupsOf(groups);
  const rows = rowGroups.length;
  const { counts } = groups;
  const [a, b] = [integers([rows, depth], 1), integers([rows, columns], 2)];
  const expected = f32([counts.length, depth, columns], 0);
  rowGroups.forEach((group, row) => {
    if (group < 0) return;
    for (let k = 0; k < depth; k++) {
      for (let column = 0; column < columns; column++) {
        const place = (group * depth + k) * columns + column;
        const term = at(a.values, row * depth + k) * at(b.values, row * columns + column);
        expected.values[place] = at(expected.values, place) + term;
      }
    }
  });
  return {
    title: `${groups.title}, ${rows} rows of ${depth} and ${columns}`,
    operation: { op: 'groupedMatmulWeight', params: {} },
    inputs: [a, b, i32([counts.length], counts)],
    expected: new NdArray(expected, expected.values),
  };
}
