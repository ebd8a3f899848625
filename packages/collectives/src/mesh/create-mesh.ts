import { ConfigError } from '@shardwise/core/spec';
import type { CallOptions, MeshAxis, ProcessGroup } from '@shardwise/core/spec';
import type { DeviceMesh } from './device-mesh.ts';
import { GridMesh } from './grid-mesh.ts';
import { groupAlong, sizeOf } from './grid.ts';

/**
 * The ranks of a group as a grid, as PyTorch's init_device_mesh lays them out: row-major, the last
 * axis fastest, so that its ranks are neighbours. With dp 2, tp 2:
 *
 *            tp 0  tp 1
 *     dp 0     0     1
 *     dp 1     2     3
 *
 * A collective: all ranks of the group call it with the same axes. Throws ConfigError where the
 * sizes do not multiply to that of the group.
 */
export async function createMesh(
  group: ProcessGroup,
  axes: readonly MeshAxis[],
  options?: CallOptions,
): Promise<DeviceMesh> {
  checkAxes(axes, group.size);
  const grid = { world: group, axes: axes.map(({ name, size }) => ({ name, size })) };
  const groups = await Promise.all(axes.map(({ name }) => groupAlong(grid, [name], options)));
  const named = groups.map((part, index) => [axes[index]?.name ?? '', part] as const);
  return new GridMesh(grid, grid.axes, new Map(named));
}

function checkAxes(axes: readonly MeshAxis[], worldSize: number): void {
  const names = new Set(axes.map(({ name }) => name));
  const isSound = axes.every(({ name, size }) => name !== '' && Number.isInteger(size) && size > 0);
  if (axes.length === 0 || names.size < axes.length || !isSound) {
    throw refusal(axes, worldSize, {
      found: 'axes have different names and at least one rank each',
      todo: 'Name one axis at least, and each of them once',
    });
  }
  const product = sizeOf(axes);
  if (product === worldSize) return;
  throw refusal(axes, worldSize, {
    found: `that is ${product} ranks, and the group has ${worldSize}`,
    todo: `Choose sizes whose product is ${worldSize}, or start ${product} ranks`,
  });
}

function refusal(
  axes: readonly MeshAxis[],
  worldSize: number,
  parts: { readonly found: string; readonly todo: string },
): ConfigError {
  const grid = axes.map(({ name, size }) => `${name} ${size}`).join(' x ');
  return new ConfigError(
    { asked: `A mesh of ${grid || 'no axes'}`, ...parts },
    { axes, worldSize },
  );
}
