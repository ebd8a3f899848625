import { createMesh } from '@shardwise/collectives';
import type { Mesh, ProcessGroup } from '@shardwise/core';

/** Splits a world into two axes, `replicas` and `dp`. The ranks of one replica are neighbours. */
export function gridOf(world: ProcessGroup, replicaCount: number): Promise<Mesh> {
  return createMesh(world, [
    { name: 'replicas', size: replicaCount },
    { name: 'dp', size: world.size / replicaCount },
  ]);
}
