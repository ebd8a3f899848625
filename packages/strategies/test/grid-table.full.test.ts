import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { matrix } from './ranks/grid-traffic.ts';
import { type GridTask, type Run, run, steps, trainAlone } from './ranks/grid-table.ts';
import { testMs, trainingMs } from './time-limits.ts';

const TOLERANCE = 1e-5;

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

let alone: Run = { losses: [], norms: [] };

beforeAll(async () => {
  setRank({ device: await cpu() });
  alone = await trainAlone();
}, 300_000);

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

  it('trains a GPT as one rank does', { timeout: testMs }, async () => {
    const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
    const found = await runRanks(size, new URL('./ranks/grid-table.ts', import.meta.url), {
      world,
      data: task,
      timeoutMs: trainingMs,
    });
    const ranks = z.array(run).length(size).parse(found);
    expect(alone.losses).toHaveLength(steps);
    for (const { losses, norms } of ranks) {
      alone.losses.forEach((loss, step) =>
        expect(Math.abs((losses[step] ?? NaN) - loss) / loss, `step ${step}`).toBeLessThan(
          TOLERANCE,
        ),
      );
      alone.norms.forEach((norm, step) =>
        expect(Math.abs((norms[step] ?? NaN) - norm) / norm, `step ${step}`).toBeLessThan(1e-4),
      );
    }
    const [first, ...others] = ranks;
    for (const { losses } of others) expect(losses).toEqual(first?.losses);
  });

  it('communicates as much as the papers say', { timeout: testMs }, async () => {
    const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
    const url = new URL('./ranks/grid-traffic.ts', import.meta.url);
    const found = await runRanks(size, url, { world, data: task, timeoutMs: trainingMs });
    expect(found).toEqual(Array.from({ length: size }, () => 4 * elementsOf(task)));
  });
});
