import { data } from '@shardwise/core';
import { rowDataset, readJsonLines } from '@shardwise/data';
import { fileBytes } from '@shardwise/data/node';

/** The numbers of a file of JSON lines, as a dataset that workers build. */
export async function numbers(path: string): Promise<data.Dataset<data.NDArray>> {
  const rows = await readJsonLines(await fileBytes(path));
  return rowDataset(rows, (row) => data.ndArray(Int32Array.of(Number(row))));
}
