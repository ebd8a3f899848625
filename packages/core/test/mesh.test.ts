import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { describe, expect, it } from 'vitest';
import { axisOf, LineMesh, LocalMesh } from '../src/mesh.ts';

describe('meshes without a grid', () => {
  it('a line has one axis over its whole group, and this rank at its place', () => {
    for (const transport of createLoopbackTransports(3)) {
      const group = createGroup(transport);
      const mesh = new LineMesh('dp', group);
      expect(mesh.axes).toEqual([{ name: 'dp', size: 3 }]);
      expect(mesh.group('dp')).toBe(group);
      expect(mesh.coordinate('dp')).toBe(group.rank);
      expect(axisOf(mesh, 'dp')).toEqual({ axis: 'dp', size: 3, rank: group.rank });
    }
  });

  it('an unknown axis is refused, with those that there are', () => {
    const [group] = createLoopbackTransports(1).map((transport) => createGroup(transport));
    const mesh = new LineMesh('dp', group!);
    expect(() => mesh.coordinate('tp')).toThrow('a mesh with the axes dp');
    expect(() => new LocalMesh().coordinate('dp')).toThrow('shardwise run --nproc N');
  });
});
