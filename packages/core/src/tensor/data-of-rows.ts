import { cast } from '../graph/ops/elementwise.ts';
import { fillRows } from '../graph/ops/graph-ops.ts';
import { noGrad } from '../graph/create-node.ts';
import type { Node, RowCount } from '../graph/node.ts';
import { currentSession } from '../rank.ts';
import { fromBytes, type HostData } from './host-data.ts';

/**
 * Returns the elements of a tensor whose number of rows only a run knows. The value is not kept: each call computes it
 * again.
 */
export async function dataOfRows(node: Node, { count, max }: RowCount): Promise<HostData> {
  const filled = noGrad(() => {
    const rows = node.dtype === 'bool' ? cast(node, 'i32') : node;
    return cast(fillRows(rows, max), node.dtype);
  });
  const session = currentSession();
  await session.realize([filled, count]);
  const [bytes, counted] = [await session.fetch(filled), await session.fetch(count)];
  const [rows = 0] = new Int32Array(counted.slice().buffer);
  const rowBytes = max === 0 ? 0 : bytes.byteLength / max;
  return fromBytes(bytes.slice(0, rows * rowBytes), node.dtype);
}
