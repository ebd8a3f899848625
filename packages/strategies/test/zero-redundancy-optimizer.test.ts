import { nn, optim, ShardwiseError, tensor } from '@shardwise/core';
import { ZeroRedundancyOptimizer } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { partitionParameters } from '../src/optimizers/zero-redundancy-optimizer.ts';

/** Updates four parameters of two ones twice. Their gradient is one. The state passes through rank 0. */
async function passStates(size: number): Promise<unknown> {
  const parameters = Array.from({ length: 4 }, () => new nn.Parameter(Float32Array.of(1, 1), [2]));
  const first = new ZeroRedundancyOptimizer(parameters, optim.SGD, { lr: 0.1, momentum: 0.9 });
  const step = async (optimizer: ZeroRedundancyOptimizer<optim.SGDSettings>): Promise<void> => {
    optimizer.zeroGrad();
    parameters
      .map((parameter) => parameter.mul(tensor([1, 1])).sum())
      .reduce((sum, each) => sum.add(each))
      .backward();
    await optimizer.step();
  };
  await step(first);
  await first.consolidateStateDict();
  const codeOf = (read: () => unknown): string | undefined => {
    try {
      read();
    } catch (error) {
      if (ShardwiseError.isInstance(error)) return error.code;
    }
    return undefined;
  };
  let dict: optim.OptimizerStateDict<optim.SGDSettings> | undefined;
  const refused = codeOf(() => {
    dict = first.stateDict();
  });
  // The others make theirs from what rank 0 has, as if it had been read from a file.
  const states = dict === undefined ? undefined : Object.keys(dict.state).length;
  const momentum = { dtype: 'f32', shape: [2], bytes: new Uint8Array(8) } as const;
  new Float32Array(momentum.bytes.buffer).set([1, 1]);
  const read = dict ?? {
    state: Object.fromEntries(
      parameters.map((_, index) => [String(index), { momentum_buffer: momentum }]),
    ),
    paramGroups: first.paramGroups.map((each) => ({ ...each, params: [0, 1, 2, 3] })),
  };
  const second = new ZeroRedundancyOptimizer(parameters, optim.SGD, { lr: 0.01, momentum: 0.9 });
  await second.consolidateStateDict();
  second.loadStateDict(read);
  const refusedOnceLoaded = codeOf(() => second.stateDict());
  await step(second);
  const [weight] = parameters;
  return {
    isOwner: parameters.every((parameter) => (second.ownerOf(parameter) ?? -1) < size),
    refused,
    refusedOnceLoaded,
    states,
    lr: second.paramGroups[0]?.lr,
    weight: Array.from((await weight?.data()) ?? [], Number),
  };
}

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
    const reports = await onRanks(size, () => passStates(size));
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
