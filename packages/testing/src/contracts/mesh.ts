import { ConfigError } from '@shardwise/core/spec';
import type { Mesh, MeshAxis } from '@shardwise/core/spec';
import { equal, holds, throws } from '../suite/assertions.ts';
import type { Suite } from '../suite/suite.ts';

/** What `meshSuite` tests. */
export interface MeshContract {
  readonly name: string;
  /** Makes a new mesh with these axes and returns what each rank of a new world sees of it, all on this thread. */
  readonly create: (axes: readonly MeshAxis[]) => Promise<readonly Mesh[]>;
  /** The meshes to make. Default: meshes of one, two and three axes. */
  readonly grids?: readonly (readonly MeshAxis[])[];
}

const grids: readonly (readonly MeshAxis[])[] = [
  [{ name: 'dp', size: 1 }],
  [{ name: 'dp', size: 3 }],
  [
    { name: 'dp', size: 2 },
    { name: 'tp', size: 3 },
  ],
  [
    { name: 'replicas', size: 2 },
    { name: 'dp', size: 1 },
    { name: 'tp', size: 2 },
  ],
];

/** The tests of a Mesh. */
export function meshSuite({ name, create, grids: own = grids }: MeshContract): Suite {
  return {
    name: `${name} keeps the contract of meshes`,
    tests: own.flatMap((axes) =>
      Object.entries(checks).map(([promise, check]) => ({
        groups: [axes.map((axis) => `${axis.name} ${axis.size}`).join(' × ')],
        name: promise,
        run: async () => check(await create(axes), axes),
      })),
    ),
  };
}

type MeshCheck = (meshes: readonly Mesh[], axes: readonly MeshAxis[]) => void | Promise<void>;

const checks: Readonly<Record<string, MeshCheck>> = {
  'has the axes that were asked for, whose sizes multiply to the world': (meshes, axes) => {
    for (const mesh of meshes) equal(mesh.axes, axes);
    equal(
      meshes.length,
      axes.reduce((product, { size }) => product * size, 1),
      'ranks',
    );
  },
  'places ranks row by row, the last axis fastest': (meshes, axes) => {
    for (const [rank, mesh] of meshes.entries()) {
      const place = axes.reduce((index, { name, size }) => index * size + mesh.coordinate(name), 0);
      equal(place, rank, 'the rank by its coordinates');
      for (const { name, size } of axes) {
        const coordinate = mesh.coordinate(name);
        holds(coordinate >= 0 && coordinate < size, `${name}: ${coordinate} of ${size}`);
      }
    }
  },
  'has a group along each axis, in which the rank is the coordinate': (meshes, axes) => {
    for (const mesh of meshes) {
      for (const { name, size } of axes) {
        const group = mesh.group(name);
        equal([group.rank, group.size], [mesh.coordinate(name), size], name);
        holds(mesh.group(name) === group, `the group of ${name} is the same every time`);
      }
    }
  },
  'has in a group the ranks that differ along its axis alone, in their order': async (
    meshes,
    axes,
  ) => {
    for (const { name, size } of axes) {
      const members = await Promise.all(
        meshes.map(async (mesh, rank) => {
          const bytes = new Uint8Array(size);
          const own = { bytes: Uint8Array.of(rank), dtype: 'u8' } as const;
          await mesh.group(name).allGather(own, { bytes, dtype: 'u8' });
          return [...bytes];
        }),
      );
      for (const [rank, mesh] of meshes.entries()) {
        const others = meshes.flatMap((other, at) =>
          axes.every((axis) => axis.name === name || isBeside(mesh, other, axis)) ? [at] : [],
        );
        equal(members[rank], others, `${name} of rank ${rank}`);
      }
    }
  },
  'refuses axes that it does not have': (meshes) => {
    for (const mesh of meshes) {
      throws(() => mesh.group('unknown'), ConfigError);
      throws(() => mesh.coordinate('unknown'), ConfigError);
    }
  },
};

function isBeside(one: Mesh, other: Mesh, { name }: MeshAxis): boolean {
  return one.coordinate(name) === other.coordinate(name);
}
