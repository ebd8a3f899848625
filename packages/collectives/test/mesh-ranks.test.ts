import { MeshRanks } from '@shardwise/collectives';
import type { MeshAxis } from '@shardwise/core/spec';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';

/** The mesh of DeepSpeed's test_topology. */
const pipeDataModel = new MeshRanks([
  { name: 'pipe', size: 2 },
  { name: 'data', size: 2 },
  { name: 'model', size: 2 },
]);

const axis = (name: string, size: number): MeshAxis => ({ name, size });

const meshes: fc.Arbitrary<readonly MeshAxis[]> = fc
  .array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 })
  .map((sizes) => sizes.map((size, index) => ({ name: `axis${index}`, size })));

describe('the ranks of a mesh', () => {
  it("has DeepSpeed's groups along each axis", () => {
    expect(pipeDataModel.groups('pipe')).toEqual([
      [0, 4],
      [1, 5],
      [2, 6],
      [3, 7],
    ]);
    expect(pipeDataModel.groups('data')).toEqual([
      [0, 2],
      [1, 3],
      [4, 6],
      [5, 7],
    ]);
    expect(pipeDataModel.groups('model')).toEqual([
      [0, 1],
      [2, 3],
      [4, 5],
      [6, 7],
    ]);
  });

  it('finds the ranks at coordinates, and the coordinates of a rank', () => {
    expect(pipeDataModel.ranksAt({ pipe: 0, data: 1 })).toEqual([2, 3]);
    expect(pipeDataModel.ranksAt({})).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect([...pipeDataModel.coordinatesOf(6)]).toEqual([
      ['pipe', 1],
      ['data', 1],
      ['model', 0],
    ]);
  });

  it('flattens axes in the order they are named in, the last one fastest', () => {
    expect(pipeDataModel.groups('pipe', 'model')).toEqual([
      [0, 1, 4, 5],
      [2, 3, 6, 7],
    ]);
    expect(pipeDataModel.groups('model', 'pipe')[0]).toEqual([0, 4, 1, 5]);
  });

  it("has DeepSpeed's groups of experts on 16 ranks", () => {
    const pairs = new MeshRanks([axis('edp', 8), axis('ep', 2)]);
    expect(pairs.groups('ep')).toHaveLength(8);
    expect(pairs.groups('ep').slice(0, 2)).toEqual([
      [0, 1],
      [2, 3],
    ]);
    expect(pairs.groups('edp')).toEqual([
      [0, 2, 4, 6, 8, 10, 12, 14],
      [1, 3, 5, 7, 9, 11, 13, 15],
    ]);
    const beside = new MeshRanks([axis('edp', 2), axis('ep', 4), axis('mp', 2)]);
    expect(beside.groups('ep')).toEqual([
      [0, 2, 4, 6],
      [1, 3, 5, 7],
      [8, 10, 12, 14],
      [9, 11, 13, 15],
    ]);
    expect(beside.groups('edp').slice(0, 3)).toEqual([
      [0, 8],
      [1, 9],
      [2, 10],
    ]);
  });

  it("has Megatron's two grids of one world, of which that of experts folds tp, cp and dp", () => {
    // The dense grid is TP 4, CP 2, DP 8, PP 4. The experts' grid is EP 64, ETP 1.
    const folded = new MeshRanks([axis('pp', 4), axis('dp', 8), axis('cp', 2), axis('tp', 4)]);
    const experts = folded.groups('dp', 'cp', 'tp');
    expect(experts).toHaveLength(4);
    experts.forEach((ranks, stage) => {
      expect(ranks).toEqual(Array.from({ length: 64 }, (_, index) => stage * 64 + index));
    });
    expect(folded.groups('pp')[5]).toEqual([5, 69, 133, 197]);
    // 8 ranks with TP 2, DP 4, and EP 4, EDP 2. The part of dp that experts are sharded over is an axis of its own.
    const split = new MeshRanks([axis('edp', 2), axis('ep', 2), axis('tp', 2)]);
    expect(split.groups('ep', 'tp')).toEqual([
      [0, 1, 2, 3],
      [4, 5, 6, 7],
    ]);
    expect(split.groups('edp')).toEqual([
      [0, 4],
      [1, 5],
      [2, 6],
      [3, 7],
    ]);
    expect(split.groups('edp', 'ep')).toEqual([
      [0, 2, 4, 6],
      [1, 3, 5, 7],
    ]);
  });

  it('has each rank in one group along an axis, at its coordinate', () => {
    fc.assert(
      fc.property(meshes, (axes) => {
        const grid = new MeshRanks(axes);
        for (const { name, size } of axes) {
          const groups = grid.groups(name);
          expect(groups.flat().sort((a, b) => a - b)).toEqual(
            Array.from({ length: grid.size }, (_, rank) => rank),
          );
          for (const group of groups) {
            expect(group.map((rank) => grid.coordinatesOf(rank).get(name))).toEqual(
              Array.from({ length: size }, (_, coordinate) => coordinate),
            );
          }
        }
      }),
    );
  });

  it('finds exactly one rank at the coordinates of a rank', () => {
    fc.assert(
      fc.property(meshes, fc.nat(), (axes, seed) => {
        const grid = new MeshRanks(axes);
        const rank = seed % grid.size;
        expect(grid.ranksAt(Object.fromEntries(grid.coordinatesOf(rank)))).toEqual([rank]);
      }),
    );
  });

  it('refuses unknown axes, coordinates and ranks with the sizes of the mesh', () => {
    expect(() => pipeDataModel.groups('expert')).toThrow(
      "the axis 'expert': a mesh of pipe 2 x data 2 x model 2",
    );
    expect(() => pipeDataModel.groups('data', 'data')).toThrow('Name each axis once');
    expect(() => pipeDataModel.ranksAt({ data: 2 })).toThrow('Use a coordinate from 0 to 1');
    expect(() => pipeDataModel.coordinatesOf(8)).toThrow('Use a rank from 0 to 7');
  });
});
