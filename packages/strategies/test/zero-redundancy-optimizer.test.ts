import { createThreadsWorld } from '@shardwise/collectives';
import { describe, expect, it } from 'vitest';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { partitionParameters } from '../src/optimizers/zero-redundancy-optimizer.ts';

const loadsOf = (groups: readonly (readonly number[])[], ranks: number): number[] => {
  const loads = Array.from({ length: ranks }, () => 0);
  partitionParameters(groups, ranks).forEach((owners, group) => {
    owners.forEach((owner, index) => {
      loads[owner] = (loads[owner] ?? 0) + (groups[group]?.[index] ?? 0);
    });
  });
  return loads;
};

describe("PyTorch's partition", () => {
  it.each([1, 2, 3, 4])('gives %i ranks 24 elements each of [9, 7, 5, 3] for each', (ranks) => {
    const sizes = Array.from({ length: ranks }, () => [9, 7, 5, 3]).flat();
    expect(loadsOf([sizes], ranks)).toEqual(sizes.slice(0, ranks).map(() => 24));
  });

  it("PyTorch's partition counts through groups that are added later", () => {
    const sizes = [9, 7, 5, 3, 9, 7, 5, 3].slice(0, -1);
    expect(loadsOf([sizes, [3]], 2)).toEqual([24, 24]);
  });

  it("PyTorch's partition gives one rank what is larger than all the rest together", () => {
    expect(partitionParameters([[100, 3, 5, 2, 6, 4]], 2)).toEqual([[0, 1, 1, 1, 1, 1]]);
  });

  it("PyTorch's partition gives equal sizes to the ranks in turn", () => {
    expect(partitionParameters([[4, 4, 4, 4, 4]], 3)).toEqual([[0, 1, 2, 0, 1]]);
  });
});

describe('ZeroRedundancyOptimizer', () => {
  it.each([1, 2, 3])('keeps, gives away and takes back the states of %i ranks', async (size) => {
    const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
    const reports = await runRanks(
      size,
      new URL('./ranks/zero-redundancy-states.ts', import.meta.url),
      { world },
    );
    reports.forEach((report, rank) => {
      expect(report).toEqual({
        isOwner: true,
        refused: rank === 0 ? undefined : 'CHECKPOINT',
        // What was consolidated before is of other states than those that it has loaded.
        refusedOnceLoaded: 'CHECKPOINT',
        states: rank === 0 ? 4 : undefined,
        // The saved state has lr 0.1. It is loaded into an optimizer that was made with 0.01.
        lr: 0.1,
        weight: [Math.fround(0.71), Math.fround(0.71)],
      });
    });
  });
});
