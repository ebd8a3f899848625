import { currentSession } from '@shardwise/core/extend';
import { createMesh } from '@shardwise/collectives';
import { optim, setRank, type Strategy } from '@shardwise/core';
import { fsdp, parallelize, pipeline, tensorParallel } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { build, decoderCases, LENGTH, ROWS } from '../decoder-cases.ts';
import { tokens } from '../golden/formulas.ts';

/** Strategies of which each rank computes with the whole batch, and FSDP, whose ranks all get the same one here. */
export const strategies = {
  'tensor parallelism': ['tp', () => tensorParallel()],
  'a pipeline': ['pp', () => pipeline({ microbatches: 1 })],
  FSDP: ['dp', () => fsdp()],
} as const satisfies Record<string, readonly [axis: string, make: () => Strategy]>;

export const lossesSchema = z.record(z.string(), z.array(z.number()));

/** Trains the Mixtral with a balance loss for the steps of the golden file. */
export async function main(context: RankContext): Promise<z.infer<typeof lossesSchema>> {
  const { group } = await join(context);
  const device = currentSession().backend;
  const golden = decoderCases.find(({ name }) => name === 'Mixtral with a balance loss');
  if (golden === undefined) throw new RangeError('no such case');
  const found: Record<string, number[]> = {};
  for (const [name, [axis, make]] of Object.entries(strategies)) {
    setRank({ device, mesh: await createMesh(group, [{ name: axis, size: context.size }]) });
    const inner = await build(golden);
    const model = await parallelize(inner, make());
    const optimizer = new optim.AdamW(inner.parameters(), { lr: 1e-2, weightDecay: 0.01 });
    const losses: number[] = [];
    for (const [step] of golden.losses.entries()) {
      const batch = tokens(`step ${step}`, [ROWS, LENGTH]);
      const loss = model.forward(batch, { labels: batch });
      optimizer.zeroGrad();
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    found[name] = losses;
  }
  return found;
}
