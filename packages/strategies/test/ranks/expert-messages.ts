import { createMesh } from '@shardwise/collectives';
import { manualSeed, nn, optim, setRank, type Strategy, subscribe } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { collectivesOf, expertParallel, explain, parallelize } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { batch, ExpertModel, features } from './expert-models.ts';

export const tokens = 8;

export const traffic = z.object({
  planned: z.array(z.string()),
  sent: z.array(z.string()),
  explained: z.string(),
});

export const found = traffic.extend({
  /** The messages when the ranks have the same tokens and each rank routes a part of them. */
  folded: traffic,
  /** Gradients when the ranks have different numbers of tokens. */
  uneven: z.array(z.number()),
});

export async function main(context: RankContext): Promise<z.infer<typeof found>> {
  const { group } = await join(context);
  const { rank, size } = context;
  const { backend: device } = currentSession();
  setRank({ device, mesh: await createMesh(group, [{ name: 'ep', size }]) });
  const apart = await messages(expertParallel({ tokens }), rank * tokens);
  const few = await uneven(rank);
  setRank({ device, mesh: await createMesh(group, [{ name: 'tp', size }]) });
  const over = { axis: 'tp', sameTokens: ['tp'], tokens: 2 * tokens };
  return { ...apart, uneven: few, folded: await messages(expertParallel(over), 0, 2 * tokens) };
}

/** Returns the messages of a step in which all experts have the same number of tokens. */
export async function messages(
  strategy: Strategy,
  start: number,
  count = tokens,
): Promise<z.infer<typeof traffic>> {
  manualSeed(0);
  const model = new ExpertModel({ gate: nn.roundRobinGate() });
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const sent: string[] = [];
  const step = async (): Promise<void> => {
    optimizer.zeroGrad();
    parallel
      .forward(batch(0, start, count))
      .square()
      .mean()
      .backward();
    await optimizer.step();
  };
  await step();
  const unsubscribe = subscribe(({ category, name, detail = '' }) => {
    if (category !== 'collective') return;
    sent.push(`${name === 'allToAllRows' ? 'allToAll' : name} ${Number.parseInt(detail, 10)}`);
  });
  await step();
  unsubscribe();
  const planned = collectivesOf(parallel.plan)
    .filter(({ when }) => when !== 'start')
    .map(({ operation, bytes }) => `${operation} ${bytes}`);
  return { planned: planned.toSorted(), sent: sent.toSorted(), explained: explain(parallel.plan) };
}

/**
 * Returns the whole gradient of the first matrix of the experts. The loss is a sum over 2 tokens on rank 0 and none on
 * the other ranks.
 */
async function uneven(rank: number): Promise<number[]> {
  manualSeed(0);
  const layer = new nn.MixtureOfExperts(features, 4, 4, { gate: nn.switchGate() });
  const parallel = await parallelize(layer, expertParallel({ k: 1, tokens: 2 }));
  parallel
    .forward(batch(0, 0, rank === 0 ? 2 : 0))
    .square()
    .sum()
    .backward();
  return Array.from((await layer.experts.up.grad?.data()) ?? [], Number);
}
