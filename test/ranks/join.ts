import { cpu } from '@shardwise/backend-cpu';
import {
  joinThreadsWorld,
  type SharedMemoryGroup,
  type ThreadsWorld,
} from '@shardwise/collectives';
import { LineMesh, setRank, type Mesh } from '@shardwise/core';
import { interpreter, type RankContext } from '@shardwise/testing';

function isWorld(world: unknown): world is ThreadsWorld {
  return typeof world === 'object' && world !== null && 'memory' in world && 'regions' in world;
}

/** Makes this thread a rank of a threads world. Its tensors are in its region of the shared memory. */
export async function join(
  { rank, world }: RankContext,
  device: 'cpu' | 'interpreter' = 'cpu',
  axis = 'dp',
): Promise<{ group: SharedMemoryGroup; mesh: Mesh }> {
  if (!isWorld(world)) throw new TypeError('a ThreadsWorld is expected');
  const group = joinThreadsWorld(world, rank);
  const mesh = new LineMesh(axis, group);
  const region = world.regions[rank];
  if (region === undefined) throw new RangeError(`no region for rank ${rank}`);
  setRank({
    device:
      device === 'interpreter' ? interpreter() : await cpu({ memory: world.memory, ...region }),
    mesh,
  });
  return { group, mesh };
}
