import * as sw from '@shardwise/core';
import { ddp, fsdp, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { join } from './join.ts';

/** In the first step, rank 0 has two backward passes and rank 1 has one. In the second step it is the reverse. */
export async function main(context: RankContext): Promise<string> {
  await join(context, 'interpreter');
  const strategy = context.data === 'ddp' ? ddp() : fsdp();
  const { module, forward } = await modelOf(strategy);
  const optimizer = new sw.optim.SGD(module.parameters(), { lr: 1 });
  try {
    for (const passes of context.rank === 0 ? [2, 1] : [1, 2]) {
      for (let pass = 0; pass < passes; pass++) forward().backward();
      await optimizer.step();
    }
  } catch (error) {
    return String(error);
  }
  return '';
}

async function modelOf(strategy: sw.Strategy<sw.nn.Module>) {
  const parallel = await parallelize(new sw.nn.Linear(2, 1), strategy);
  return { module: parallel.module, forward: () => parallel.forward(sw.ones([1, 2])).sum() };
}
