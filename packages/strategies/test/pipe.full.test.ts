import { nn, rand } from '@shardwise/core';
import { GPipe, onEveryRank } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';

it("GPipe runs PyTorch's example on two ranks, of which each has a layer", async () => {
  await onRanks(
    2,
    async ({ rank }) => {
      const sequential = new nn.Sequential(new nn.Linear(16, 8), new nn.Linear(8, 4));
      const model = new GPipe(sequential, { chunks: 8 });
      const input = rand([16, 16]);
      const alone = await valuesOf(sequential.forward(input));
      const output = await valuesOf(await onEveryRank(await model.forward(input)));
      expect(output).toHaveLength(64);
      for (const [index, value] of output.entries()) {
        expect(value).toBeCloseTo(alone[index] ?? NaN, 5);
      }
      const { module } = await model.ready();
      const held = module
        .namedParameters()
        .filter(([, { part }]) => part.node.value?.kind === 'device');
      expect(held.map(([name]) => name)).toEqual([`${rank}.weight`, `${rank}.bias`]);
    },
    { axes: [{ name: 'pp', size: 2 }] },
  );
});
