import { nn, optim, ShardwiseError, tensor } from '@shardwise/core';
import { ZeroRedundancyOptimizer } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { join } from '../../../../test/ranks/join.ts';

/** Updates four parameters of two ones twice. Their gradient is one. The state passes through rank 0. */
export async function main(context: RankContext): Promise<unknown> {
  const { group } = await join(context);
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
  const report = {
    isOwner: parameters.every((parameter) => (second.ownerOf(parameter) ?? -1) < group.size),
    refused,
    refusedOnceLoaded,
    states,
    lr: second.paramGroups[0]?.lr,
    weight: Array.from((await weight?.data()) ?? [], Number),
  };
  group.close();
  return report;
}
