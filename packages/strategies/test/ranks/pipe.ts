import { nn, rand } from '@shardwise/core';
import { onEveryRank, GPipe } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

const numbers = z.array(z.number());

export const found = z.object({ output: numbers, alone: numbers, held: z.array(z.string()) });

/** Runs PyTorch's example of Pipe. */
export async function main(context: RankContext): Promise<z.infer<typeof found>> {
  await join(context, 'interpreter', 'pp');
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
