import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { describe, expect, it } from 'vitest';
import { interpreter } from '@shardwise/testing';
import { axisOf, LineMesh, LocalMesh } from '../src/mesh.ts';
import { currentSession, setRank } from '../src/rank.ts';

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

  it('a group that was made of another one is made once, also for later sessions: a world has room for few', async () => {
    const [transport] = createLoopbackTransports(1);
    const group = createGroup(transport!);
    let made = 0;
    const extend = async (): Promise<unknown> => {
      setRank({ device: interpreter(), mesh: new LineMesh('pp', group) });
      const session = currentSession();
      await session.extendMesh('pp messages', 'pp', async (ranks) => {
        made++;
        return (await ranks.split(0, ranks.rank)) ?? ranks;
      });
      expect(session.mesh.group('pp')).toBe(group);
      return session.mesh.group('pp messages');
    };
    const first = await extend();
    expect(first).not.toBe(group);
    expect(await extend()).toBe(first);
    expect(made).toBe(1);
  });
});
