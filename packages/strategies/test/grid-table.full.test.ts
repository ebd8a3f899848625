import { manualSeed, type Mesh, nn, statistics, zeros } from '@shardwise/core';
import { GridLinear, ownRows } from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { oncePerKey } from './as-one-rank.ts';
import { grids, type GridTask, steps, trainAlone, trainOnGrid } from './ranks/grid-table.ts';

const matrix = { rows: 16, inputs: 8, outputs: 32 };

/** Returns the bytes of this rank's collectives in the forward and backward pass of a product. */
async function bytesOf(name: GridTask['grid'], mesh: Mesh): Promise<number> {
  const grid = grids[name]();
  manualSeed(0);
  const whole = new nn.Linear(matrix.inputs, matrix.outputs, { bias: false });
  const layer = await GridLinear.from(whole, grid);
  const features = matrix.inputs / mesh.group(grid.features).size;
  const [rows = 0] = ownRows(zeros([matrix.rows]), grid).shape;
  const x = new nn.Parameter(new Float32Array(rows * features), [rows, features]);
  const before = statistics().collectiveBytes;
  const loss = layer.forward(x).sum();
  loss.backward();
  await loss.item();
  return statistics().collectiveBytes - before;
}

const square = [
  { name: 'row', size: 2 },
  { name: 'column', size: 2 },
];
const tasks: readonly GridTask[] = [
  { grid: '2D', axes: square },
  { grid: '2.5D', axes: [{ name: 'depth', size: 1 }, ...square] },
  { grid: '2.5D', axes: [{ name: 'depth', size: 2 }, ...square] },
  { grid: '3D', axes: ['input', 'weight', 'output'].map((name) => ({ name, size: 2 })) },
];

const alone = oncePerKey(trainAlone, onCpu);

/**
 * Returns the elements that a rank's collectives move in a product, forward and backward, with q = 2. A scatter counts
 * the elements that it scatters.
 */
function elementsOf({ grid, axes }: GridTask): number {
  const { rows, inputs, outputs } = matrix;
  const [x, weight, y] = [rows * inputs, inputs * outputs, rows * outputs];
  const q = 2;
  const d = axes.find(({ name }) => name === 'depth')?.size ?? 1;
  // Each of the q steps of SUMMA sends one block of x and one of W. Backward sends them again and sums their gradients
  // (Xu et al. 2021).
  const summa = 3 * (x / (d * q) + weight / q);
  return {
    '2D': summa,
    // If there are several layers of ranks, the gradient of the weight is summed over them.
    '2.5D': summa + (d === 1 ? 0 : weight / q ** 2),
    // Both passes gather x and W, and backward gathers dy. The scatters are of y, dx and dW.
    '3D': (3 * (x + weight) + 2 * y) / q ** 2,
  }[grid];
}

describe.each(tasks)('$grid tensor parallelism on $axes.length axes of $axes.0.size', (task) => {
  const size = task.axes.reduce((product, axis) => product * axis.size, 1);

  it('trains a GPT as one rank does', async () => {
    const options = { axes: task.axes, ...onCpu };
    const ranks = await onRanks(size, () => trainOnGrid(task.grid), options);
    const expected = await alone(null);
    expect(expected.losses).toHaveLength(steps);
    for (const { losses, norms } of ranks) {
      assertAllclose(losses, expected.losses, { rtol: 1e-5, atol: 0 });
      assertAllclose(norms, expected.norms, { rtol: 1e-4, atol: 0 });
      expect(losses).toEqual(ranks[0]?.losses);
    }
  });

  it('communicates as much as the papers say', async () => {
    const found = await onRanks(size, ({ mesh }) => bytesOf(task.grid, mesh), { axes: task.axes });
    expect(found).toEqual(Array.from({ length: size }, () => 4 * elementsOf(task)));
  });
});
