import { meshFromHosts, meshOrder, MeshRanks } from '@shardwise/collectives';
import { describe, expect, it } from 'vitest';

function grid(order: string, sizes: Readonly<Record<string, number>>): MeshRanks {
  return new MeshRanks(meshOrder(order, sizes));
}

/** Megatron-LM's default order of axes. */
const megatronOrder = 'tp-cp-ep-dp-pp';

/** The expected values are those of Megatron-LM's test_parallel_state. */
describe("a mesh in Megatron's order", () => {
  it('has the first name fastest, and axes without a size of one rank', () => {
    expect(meshOrder(megatronOrder, { tp: 2, dp: 3 })).toEqual([
      { name: 'pp', size: 1 },
      { name: 'dp', size: 3 },
      { name: 'ep', size: 1 },
      { name: 'cp', size: 1 },
      { name: 'tp', size: 2 },
    ]);
  });

  it('puts rank tp + dp·TP + pp·TP·DP at these coordinates', () => {
    const mesh = grid('tp-dp-pp', { tp: 2, dp: 3, pp: 4 });
    for (let rank = 0; rank < mesh.size; rank++) {
      const at = mesh.coordinatesOf(rank);
      const [tp = 0, dp = 0, pp = 0] = ['tp', 'dp', 'pp'].map((name) => at.get(name));
      expect(tp + dp * 2 + pp * 2 * 3).toBe(rank);
    }
  });

  it('has the dp groups of tp-pp-dp, 2-2-2', () => {
    expect(grid('tp-pp-dp', { tp: 2, pp: 2, dp: 2 }).groups('dp')).toEqual([
      [0, 4],
      [1, 5],
      [2, 6],
      [3, 7],
    ]);
  });

  it('has the dp groups of tp-dp-pp, 2-3-4', () => {
    const groups = grid('tp-dp-pp', { tp: 2, dp: 3, pp: 4 }).groups('dp');
    expect(groups.at(0)).toEqual([0, 2, 4]);
    expect(groups.at(-1)).toEqual([19, 21, 23]);
  });

  it('has the cp groups of 8 ranks at tp 4, cp 2', () => {
    expect(grid(megatronOrder, { tp: 4, cp: 2 }).groups('cp')).toEqual([
      [0, 4],
      [1, 5],
      [2, 6],
      [3, 7],
    ]);
  });

  it('has the next stage of a rank at (rank + 2) % 8, the first at rank % 2, at tp 2, pp 4', () => {
    for (const stages of grid(megatronOrder, { tp: 2, pp: 4 }).groups('pp')) {
      stages.forEach((rank, stage) => {
        expect(stages[(stage + 1) % 4]).toBe((rank + 2) % 8);
        expect(stages[0]).toBe(rank % 2);
      });
    }
  });

  it('refuses a name twice, and ranks on an axis that the order lacks', () => {
    expect(() => meshOrder('tp-dp-tp', { tp: 2 })).toThrow('a name that is empty or there twice');
    expect(() => meshOrder('tp-dp', { tp: 2, pp: 4 })).toThrow('axes that it does not name: pp 4');
    expect(meshOrder('tp-dp', { tp: 2, pp: 1 })).toHaveLength(2);
  });
});

describe('a mesh from the hosts of the ranks', () => {
  it('has its inner axis inside a host', () => {
    const hosts = [0, 0, 0, 0, 1, 1, 1, 1];
    expect(meshFromHosts(hosts)).toEqual([
      { name: 'dp', size: 2 },
      { name: 'tp', size: 4 },
    ]);
    const mesh = new MeshRanks(meshFromHosts(hosts, { outer: 'fsdp', innerSize: 2 }));
    for (const group of mesh.groups('tp')) {
      expect(new Set(group.map((rank) => hosts[rank])).size).toBe(1);
    }
    expect(mesh.axes[0]).toEqual({ name: 'fsdp', size: 4 });
  });

  it('takes the greatest size that divides the ranks of every host', () => {
    expect(meshFromHosts([7, 7, 7, 7, 3, 3, 3, 3, 3, 3])).toEqual([
      { name: 'dp', size: 5 },
      { name: 'tp', size: 2 },
    ]);
  });

  it('refuses an inner axis that would cross hosts, with the numbers', () => {
    expect(() => meshFromHosts([0, 0, 0, 1, 1, 1], { innerSize: 2 })).toThrow(
      "the axis 'tp' of 2 ranks inside a host: hosts with 3, 3 ranks. Use a size that divides the ranks of every host, such as 3",
    );
    expect(() => meshFromHosts([0, 1, 0, 1])).toThrow('rank 2 on host 0 apart from');
    expect(() => meshFromHosts([])).toThrow('hosts with no ranks');
  });
});
