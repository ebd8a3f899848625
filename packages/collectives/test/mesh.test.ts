import { createGroup, createLoopbackTransports, createMesh } from '@shardwise/collectives';
import type { DeviceMesh } from '@shardwise/collectives';
import { LineMesh } from '@shardwise/core';
import type { MeshAxis, ProcessGroup } from '@shardwise/core/spec';
import { meshSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { describe, expect, it } from 'vitest';

async function meshes(...axes: readonly MeshAxis[]): Promise<readonly DeviceMesh[]> {
  const size = axes.reduce((product, axis) => product * axis.size, 1);
  const groups = createLoopbackTransports(size).map((transport) => createGroup(transport));
  return Promise.all(groups.map((group) => createMesh(group, axes)));
}

testSuite(meshSuite({ name: 'createMesh', create: (axes) => meshes(...axes) }));

testSuite(
  meshSuite({
    name: 'LineMesh',
    create: async ([axis = { name: 'dp', size: 1 }]) =>
      createLoopbackTransports(axis.size).map(
        (transport) => new LineMesh(axis.name, createGroup(transport)),
      ),
    grids: [[{ name: 'dp', size: 3 }], [{ name: 'tp', size: 1 }]],
  }),
);

testSuite(
  meshSuite({
    name: 'a part of a mesh',
    create: async (axes) => {
      const whole = await meshes({ name: 'rest', size: 1 }, ...axes);
      return whole.map((mesh) => mesh.select(...axes.map(({ name }) => name)));
    },
  }),
);

/** Returns the world ranks that are members of each rank's group. */
async function members(groups: readonly ProcessGroup[]): Promise<readonly (readonly number[])[]> {
  return Promise.all(
    groups.map(async (group, rank) => {
      const bytes = new Uint8Array(group.size);
      await group.allGather({ bytes: Uint8Array.of(rank), dtype: 'u8' }, { bytes, dtype: 'u8' });
      return [...bytes];
    }),
  );
}

const dp2cp2tp2 = [
  { name: 'dp', size: 2 },
  { name: 'cp', size: 2 },
  { name: 'tp', size: 2 },
];

describe('a mesh of devices', () => {
  it('lays ranks out row by row, the last axis fastest', async () => {
    const grid = await meshes({ name: 'dp', size: 2 }, { name: 'tp', size: 3 });
    expect(grid.map((mesh) => [mesh.coordinate('dp'), mesh.coordinate('tp')])).toEqual([
      [0, 0],
      [0, 1],
      [0, 2],
      [1, 0],
      [1, 1],
      [1, 2],
    ]);
    expect(await members(grid.map((mesh) => mesh.group('tp')))).toEqual([
      [0, 1, 2],
      [0, 1, 2],
      [0, 1, 2],
      [3, 4, 5],
      [3, 4, 5],
      [3, 4, 5],
    ]);
    expect(await members(grid.map((mesh) => mesh.group('dp')))).toEqual([
      [0, 3],
      [1, 4],
      [2, 5],
      [0, 3],
      [1, 4],
      [2, 5],
    ]);
  });

  it('an axis over all ranks is the group itself, one of size 1 a group of one', async () => {
    const [group] = createLoopbackTransports(1).map((transport) => createGroup(transport));
    const mesh = await createMesh(group!, [{ name: 'dp', size: 1 }]);
    expect(mesh.group('dp')).toBe(group);
    const [first] = await meshes({ name: 'dp', size: 2 }, { name: 'pp', size: 1 });
    expect(first?.group('pp').size).toBe(1);
  });

  it('flattened axes are one, as PyTorch has it: dp and cp of 2 x 2 x 2', async () => {
    const grid = await meshes(...dp2cp2tp2);
    const flat = await Promise.all(grid.map((mesh) => mesh.flatten(['dp', 'cp'], 'dpcp')));
    expect(await members(flat.map((mesh) => mesh.group('dpcp')))).toEqual(
      Array.from({ length: 8 }, (_, rank) => (rank % 2 === 0 ? [0, 2, 4, 6] : [1, 3, 5, 7])),
    );
    expect(flat.map((mesh) => mesh.coordinate('dpcp'))).toEqual([0, 0, 1, 1, 2, 2, 3, 3]);
    expect(flat[0]?.axes).toEqual(dp2cp2tp2);
    expect(flat[5]?.group('tp')).toBe(grid[5]?.group('tp'));
  });

  it('flattened axes go in the order they are named in, the last one fastest', async () => {
    const grid = await meshes({ name: 'a', size: 2 }, { name: 'b', size: 3 });
    const flat = await Promise.all(grid.map((mesh) => mesh.flatten(['b', 'a'], 'ba')));
    const [first] = await members(flat.map((mesh) => mesh.group('ba')));
    expect(first).toEqual([0, 3, 1, 4, 2, 5]);
  });

  it('a selection has the same groups and no others', async () => {
    const [mesh] = await meshes(...dp2cp2tp2);
    const selected = mesh!.select('tp', 'dp');
    expect(selected.axes).toEqual([
      { name: 'tp', size: 2 },
      { name: 'dp', size: 2 },
    ]);
    expect(selected.group('dp')).toBe(mesh!.group('dp'));
    expect(() => selected.group('cp')).toThrow('a mesh with the axes tp, dp');
  });

  it('refuses sizes that do not multiply to the number of ranks, with the numbers', async () => {
    const [group] = createLoopbackTransports(4).map((transport) => createGroup(transport));
    const axes = [
      { name: 'dp', size: 2 },
      { name: 'tp', size: 3 },
    ];
    await expect(createMesh(group!, axes)).rejects.toThrow(
      'A mesh of dp 2 x tp 3: that is 6 ranks, and the group has 4',
    );
  });

  it.each<[string, readonly MeshAxis[]]>([
    ['no axes', []],
    [
      'one name twice',
      [
        { name: 'dp', size: 1 },
        { name: 'dp', size: 1 },
      ],
    ],
    ['no name', [{ name: '', size: 1 }]],
    [
      'half a rank',
      [
        { name: 'dp', size: 0.5 },
        { name: 'tp', size: 2 },
      ],
    ],
  ])('refuses %s', async (_, axes) => {
    const [group] = createLoopbackTransports(1).map((transport) => createGroup(transport));
    await expect(createMesh(group!, axes)).rejects.toMatchObject({ code: 'CONFIG' });
  });

  it('refuses to flatten what is unknown, named twice, or under a name that is taken', async () => {
    const [mesh] = await meshes({ name: 'dp', size: 1 }, { name: 'tp', size: 1 });
    await expect(mesh!.flatten(['dp', 'pp'], 'x')).rejects.toMatchObject({ code: 'CONFIG' });
    await expect(mesh!.flatten(['dp', 'dp'], 'x')).rejects.toMatchObject({ code: 'CONFIG' });
    await expect(mesh!.flatten(['dp', 'tp'], 'tp')).rejects.toMatchObject({ code: 'CONFIG' });
    expect(() => mesh!.select()).toThrow('Name at least one axis');
  });
});
