import { LineMesh, type Mesh, type ProcessGroup } from '@shardwise/core';

/** A world as two axes, `replicas` and `dp`; the ranks of one replica are neighbours. */
export async function gridOf(world: ProcessGroup, replicaCount: number): Promise<Mesh> {
  const shardCount = world.size / replicaCount;
  const replica = Math.floor(world.rank / shardCount);
  const shard = world.rank % shardCount;
  const shards = await world.split(replica, shard);
  const replicas = await world.split(replicaCount + shard, replica);
  if (shards === undefined || replicas === undefined) throw new RangeError('a rank in no group');
  const lines = { dp: new LineMesh('dp', shards), replicas: new LineMesh('replicas', replicas) };
  return {
    axes: [...lines.replicas.axes, ...lines.dp.axes],
    group: (axis) => (axis === 'replicas' ? lines.replicas : lines.dp).group(axis),
  };
}
