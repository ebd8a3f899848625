import type { CallOptions, ProcessGroup } from '@shardwise/core/spec';
import type { MeshRanks } from './mesh-ranks.ts';

/** The ranks of a world as a grid, of which all its meshes are parts. */
export interface Grid {
  readonly world: ProcessGroup;
  readonly ranks: MeshRanks;
}

/** The group of the ranks that differ from this one only along these axes of the grid. */
export async function groupAlong(
  { world, ranks }: Grid,
  names: readonly string[],
  options?: CallOptions,
): Promise<ProcessGroup> {
  const groups = ranks.groups(...names);
  const color = groups.findIndex((members) => members.includes(world.rank));
  const members = groups[color] ?? [];
  const isWorld = groups.length === 1 && members.every((rank, index) => rank === index);
  if (isWorld) return world;
  const group = await world.split(color, members.indexOf(world.rank), options);
  if (group !== undefined) return group;
  throw new TypeError('A rank with a colour is in a group');
}
