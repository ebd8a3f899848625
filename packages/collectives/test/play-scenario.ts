import type { ProcessGroup } from '@shardwise/core/spec';
import {
  RankFailure,
  reportOf,
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing/ranks';
import { operationCases } from './operation-cases.ts';

/** Plays one rank's part of a scenario with all ranks on one thread, and returns how it ended. Closes the group. */
export async function playScenario(
  group: ProcessGroup,
  scenario: ProcessGroupScenario,
): Promise<RankOutcome> {
  try {
    const value = await runProcessGroupScenario(group, scenario, { cases: operationCases });
    return { status: 'fulfilled', value };
  } catch (error) {
    return { status: 'rejected', error: new RankFailure(group.rank, reportOf(error)) };
  } finally {
    group.close();
  }
}
