import { currentSession, onAllRanks } from '@shardwise/core/extend';
import type { z } from 'zod';

/** What is asked of all ranks, and what to do if one of them fails. */
type SharedWork = Parameters<typeof onAllRanks>[1];

/**
 * Does `work` on all ranks of the mesh, and returns the results in the order of the ranks. It is a collective. If the
 * work fails on any rank, all ranks throw a CheckpointError that names the failed ranks.
 */
export async function onMesh<T>(
  shared: SharedWork,
  schema: z.ZodType<T>,
  work: () => Promise<T>,
): Promise<readonly T[]> {
  const { mesh } = currentSession();
  if (mesh.axes.length === 0) return onAllRanks(null, shared, schema, work);
  let all = async (): Promise<readonly T[]> => [await work()];
  // The groups of an axis are disjoint, so one call for each axis reaches everyone.
  for (const { name } of mesh.axes.toReversed()) {
    const inner = all;
    all = async () =>
      (
        await onAllRanks(mesh.group(name), shared, schema.array(), async () => [...(await inner())])
      ).flat();
  }
  return all();
}
