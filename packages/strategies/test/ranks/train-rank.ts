import type { RankContext } from '@shardwise/testing/ranks';
import { join } from '../../../../test/ranks/join.ts';
import { train, trainingNames, type Trained } from './trainings.ts';

/** Runs every training on this rank, by name. */
export async function main(context: RankContext): Promise<Record<string, Trained>> {
  await join(context);
  const results: Record<string, Trained> = {};
  for (const name of trainingNames) results[name] = await train(name, context.rank, context.size);
  return results;
}
