import { createMesh } from '@shardwise/collectives';
import { manualSeed, nn, setRank, statistics, zeros } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { GridLinear, ownRows } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { join } from '../../../../test/ranks/join.ts';
import { grids, gridTask } from './grid-table.ts';

export const matrix = { rows: 16, inputs: 8, outputs: 32 };

/** Returns the bytes of this rank's collectives in the forward and backward pass of a product. */
export async function main(context: RankContext): Promise<number> {
  const { grid: name, axes } = gridTask.parse(context.data);
  const { group } = await join(context);
  const mesh = await createMesh(group, axes);
  setRank({ device: currentSession().backend, mesh });
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
