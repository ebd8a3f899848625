import { nn, rand } from '@shardwise/core';
import { GPipe, onEveryRank } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';

type Numbers = number[];

interface Found {
  output: Numbers;
  alone: Numbers;
  held: string[];
}

/** Runs PyTorch's example of Pipe. */
async function observe(): Promise<Found> {
  const fc1 = new nn.Linear(16, 8);
  const fc2 = new nn.Linear(8, 4);
  const sequential = new nn.Sequential(fc1, fc2);
  const model = new GPipe(sequential, { chunks: 8 });
  const input = rand([16, 16]);
  const alone = await sequential.forward(input).data();
  const output = await (await onEveryRank(await model.forward(input))).data();
  const { module } = await model.ready();
  const here = module
    .namedParameters()
    .filter(([, { part }]) => part.node.value?.kind === 'device');
  return {
    output: Array.from(output, Number),
    alone: Array.from(alone, Number),
    held: here.map(([name]) => name),
  };
}

test("GPipe runs PyTorch's example on two ranks, of which each has a layer", async () => {
  const ranks = await onRanks(2, observe, { axes: [{ name: 'pp', size: 2 }] });
  for (const { output, alone } of ranks) {
    expect(output).toHaveLength(64);
    for (const [index, value] of output.entries()) expect(value).toBeCloseTo(alone[index] ?? 0, 5);
  }
  expect(ranks.map(({ held }) => held)).toEqual([
    ['0.weight', '0.bias'],
    ['1.weight', '1.bias'],
  ]);
});
