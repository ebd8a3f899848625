import { joinThreadsWorld, type ThreadsWorld } from '@shardwise/collectives';
import {
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankContext,
} from '@shardwise/testing/ranks';

/** One rank of the contract on threads. */
export async function main(
  context: RankContext<ThreadsWorld, ProcessGroupScenario>,
): Promise<unknown> {
  const group = joinThreadsWorld(context.world, context.rank);
  const answer = await runProcessGroupScenario(group, context.data);
  group.close();
  return answer;
}
