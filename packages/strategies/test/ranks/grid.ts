import { createMesh } from '@shardwise/collectives';
import type { Mesh, ProcessGroup } from '@shardwise/core';

/** A world as two axes, `replicas` and `dp`; the ranks of one replica are neighbours. */
export function gridOf(world: ProcessGroup, replicaCount: number): Promise<Mesh> {
  return createMesh(world, [
    { name: 'replicas', size: replicaCount },
    { name: 'dp', size: world.size / replicaCount },
  ]);
}
