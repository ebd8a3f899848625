import { checkOptions } from '@shardwise/core/base';
import {
  type CallOptions,
  ConfigError,
  type MeshAxis,
  type ProcessGroup,
} from '@shardwise/core/spec';
import { callRules } from '../call/call-options.ts';
import { requireGroup } from '../call/require-group.ts';
import { type DeviceMesh, GridMesh } from './device-mesh.ts';
import { groupAlong } from './grid.ts';
import { formatGrid, MeshRanks } from './mesh-ranks.ts';

/**
 * Arranges the ranks of a group as a grid, as PyTorch's init_device_mesh does: row-major, with the last axis
 * fastest, so ranks along it are neighbours. With dp 2, tp 2:
 *
 *            tp 0  tp 1
 *     dp 0     0     1
 *     dp 1     2     3
 *
 * It is a collective: all ranks of the group call it with the same axes. Throws ConfigError if the product of
 * the sizes is not the size of the group.
 */
export async function createMesh(
  group: ProcessGroup,
  axes: readonly MeshAxis[],
  options?: CallOptions,
): Promise<DeviceMesh> {
  requireGroup('createMesh', group);
  checkOptions('createMesh', options, callRules);
  const ranks = new MeshRanks(axes);
  if (ranks.size !== group.size) throw misfit(axes, ranks.size, group.size);
  const grid = { world: group, ranks };
  const groups = await Promise.all(axes.map(({ name }) => groupAlong(grid, [name], options)));
  const named = groups.map((part, index) => [axes[index]?.name ?? '', part] as const);
  return new GridMesh(grid, ranks.axes, new Map(named));
}

function misfit(axes: readonly MeshAxis[], product: number, worldSize: number): ConfigError {
  return new ConfigError(
    {
      asked: `A mesh of ${formatGrid(axes)}`,
      found: `that is ${product} ranks, and the group has ${worldSize}`,
      todo: `Choose sizes whose product is ${worldSize}, or start ${product} ranks`,
    },
    { axes, worldSize },
  );
}
