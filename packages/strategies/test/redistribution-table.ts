import {
  formatLayout,
  fromData,
  type Layout,
  type Mesh,
  type MeshAxis,
  noGrad,
  type Shape,
  stack,
  type Tensor,
} from '@shardwise/core';
import {
  axesOfLayout,
  chunksOf,
  currentSession,
  localShape,
  takeChunks,
} from '@shardwise/core/extend';
import { fromLocal } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { sumOverRanks, values } from './ranks/distributed-tensor-values.ts';

interface Outcome {
  readonly name: string;
  /** The error of the whole tensor after redistribution. */
  readonly valueError: number;
  readonly analytic: number;
  readonly numeric: number;
}

/**
 * Returns all layouts of a matrix on a mesh. Each axis is on a dim (in either order), partial or nowhere, or one axis
 * shards row by row after the others.
 */
export function allLayouts(axes: readonly string[]): readonly Layout[] {
  const flat = axes.flatMap((axis) =>
    dimLayouts(axes.filter((other) => other !== axis)).map((layout) => ({
      ...layout,
      flat: [axis],
    })),
  );
  return [...dimLayouts(axes), ...flat];
}

function dimLayouts(axes: readonly string[]): readonly Layout[] {
  return axes.reduce<readonly Layout[]>(
    (layouts, axis) =>
      layouts.flatMap(({ dims, partial }) => [
        { dims, partial },
        { dims, partial: [...partial, axis] },
        ...dims.flatMap((own, dim) =>
          own.length === 0
            ? [{ dims: dims.with(dim, [axis]), partial }]
            : [
                { dims: dims.with(dim, [...own, axis]), partial },
                { dims: dims.with(dim, [axis, ...own]), partial },
              ],
        ),
      ]),
    [{ dims: [[], []], partial: [] }],
  );
}

/** Compares directional derivatives of a function of the whole tensor: by autograd and by central differences. */
async function outcomesOf(
  { group }: RankInThread,
  shape: Shape,
  axes: readonly MeshAxis[],
): Promise<readonly Outcome[]> {
  const layouts = allLayouts(axes.map(({ name }) => name));
  const seen = new Set<string>();
  const terms: Terms[] = [];
  for (const from of layouts) {
    for (const to of layouts) {
      // Both axes have two ranks, so cases that differ only in the axes' names count as one.
      if (seen.has(JSON.stringify([swapped(from), swapped(to)]))) continue;
      seen.add(JSON.stringify([from, to]));
      terms.push(await termsOf(shape, from, to));
    }
  }
  const analytic = await sumOverRanks(
    terms.map((term) => term.analytic),
    group,
  );
  const numeric = await sumOverRanks(
    terms.map((term) => term.numeric),
    group,
  );
  return terms.map(({ name, valueError }, index) => {
    return {
      name,
      valueError,
      analytic: analytic[index] ?? Number.NaN,
      numeric: numeric[index] ?? Number.NaN,
    };
  });
}

/** The layout with the names of the two axes exchanged. */
function swapped({ dims, partial, flat }: Layout): Layout {
  const other = (axis: string): string => (axis === 'a' ? 'b' : 'a');
  const own = { dims: dims.map((axes) => axes.map(other)), partial: partial.map(other) };
  return flat === undefined ? own : { ...own, flat: flat.map(other) };
}

/** This rank's terms of the sums in an outcome. */
type Terms = Outcome;

/** Returns a number that is the same for ranks with the same part, which are at one place of the layout's axes. */
function placeOf(layout: Layout, mesh: Mesh): number {
  return axesOfLayout(layout).reduce((place, axis) => place * 7 + mesh.coordinate(axis) + 1, 1);
}

/** The number of ranks with the same part. */
function copies(layout: Layout, mesh: Mesh): number {
  const used = new Set(axesOfLayout(layout));
  return mesh.axes.reduce(
    (product, { name, size }) => (used.has(name) ? product : product * size),
    1,
  );
}

async function termsOf(shape: Shape, from: Layout, to: Layout): Promise<Terms> {
  const { mesh } = currentSession();
  const own = localShape(shape, from, (axis) => mesh.group(axis));
  const count = own.reduce((product, size) => product * size, 1);
  const place = placeOf(from, mesh);
  const base = values(count, 10 + place);
  const direction = values(count, 1000 + place);

  /** This rank's term of a function of the whole tensor. It is linear if the result is a partial sum. */
  const loss = (local: Tensor): Tensor => {
    const y = fromLocal(local, from, shape).redistribute(to).toLocal();
    const weights = partOf(shape, to, mesh);
    const terms = to.partial.length > 0 ? y : y.add(y.mul(y).mul(0.3));
    return terms.mul(weights).sum();
  };
  const moved = (step: number): Tensor => {
    const x = Float32Array.from(base, (value, index) => value + step * (direction[index] ?? 0));
    return noGrad(() => loss(fromData(x, own, 'f32')));
  };
  const step = 1e-2;
  const [ahead = 0, behind = 0] = await stack([moved(step), moved(-step)]).data();

  const x = fromData(base, own, 'f32').requiresGrad_();
  loss(x).backward();
  if (x.grad === null) throw new TypeError('no gradient');
  const gradient = await x.grad.data();
  const analytic = direction.reduce((sum, value, i) => sum + value * Number(gradient[i]), 0);

  const before = fromLocal(fromData(base, own, 'f32'), from, shape);
  const change = before.redistribute(to).fullTensor().sub(before.fullTensor());
  return {
    name: `${formatLayout(from)} to ${formatLayout(to)}`,
    valueError: await change.abs().max().item(),
    numeric: (Number(ahead) - Number(behind)) / (2 * step) / copies(to, mesh),
    analytic: analytic / copies(from, mesh),
  };
}

/** Returns this rank's part of weights for the whole tensor. */
function partOf(shape: Shape, layout: Layout, mesh: Mesh): Tensor {
  const place = (axis: string): { size: number; rank: number } => mesh.group(axis);
  const count = shape.reduce((product, size) => product * size, 1);
  const whole = new Uint8Array(values(count, 3).buffer);
  const part = takeChunks(whole, shape, chunksOf(shape, layout, place), 4);
  return fromData(new Float32Array(part.buffer), localShape(shape, layout, place), 'f32');
}

const line = (size: number): readonly MeshAxis[] => [{ name: 'a', size }];
const square: readonly MeshAxis[] = [
  { name: 'a', size: 2 },
  { name: 'b', size: 2 },
];

/** The shape of a matrix, a mesh, and the least number of redistributions between layouts that it has. */
type MatrixOnMesh = readonly [
  shape: readonly number[],
  axes: readonly MeshAxis[],
  leastCases: number,
];

/** Matrices whose parts are uneven. Some ranks have empty parts. */
export const onLines: readonly MatrixOnMesh[] = [
  [[5, 3], line(2), 16],
  // The rows are split into 2, 2 and 1, then into 2, 2 and none, and into 2, 2, 2 and none.
  [[5, 3], line(3), 16],
  [[4, 2], line(3), 16],
  [[6, 3], line(4), 16],
];
export const onSquare: readonly MatrixOnMesh[] = [[[5, 3], square, 100]];

/** Tests redistributions between all layouts on a mesh. */
export function testRedistributions(cases: readonly MatrixOnMesh[]): void {
  describe.each(cases)('redistributions of a %j matrix on %j', (shape, axes, leastCases) => {
    const size = axes.reduce((product, axis) => product * axis.size, 1);

    it('keep the values, and have the derivatives of the whole as gradients', async () => {
      const ranks = await onRanks(size, (rank) => outcomesOf(rank, shape, axes), { axes });
      for (const rank of ranks) {
        expect(rank.length).toBeGreaterThanOrEqual(leastCases);
        for (const { name, valueError, analytic, numeric } of rank) {
          expect(valueError, name).toBeLessThan(1e-6);
          const error = Math.abs(analytic - numeric) / Math.max(1, Math.abs(numeric));
          expect(error, `${name}: ${analytic} and ${numeric}`).toBeLessThan(2e-3);
        }
      }
    });
  });
}
