import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { assertAllclose, interpreter } from '@shardwise/testing';
import { expect } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { type AttentionTask, trainAlone, trained } from './ranks/context-parallel.ts';
import { trainingMs } from './time-limits.ts';

/** Does the tasks on this many ranks, and compares losses and trained weights with those of one rank. */
export async function compareWithOneRank(
  size: number,
  tasks: readonly AttentionTask[],
): Promise<void> {
  const found = await runRanks(size, new URL('./ranks/context-parallel.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 }),
    data: tasks,
    timeoutMs: trainingMs,
  });
  const byRank = z.array(z.array(trained)).length(size).parse(found);
  for (const [index, task] of tasks.entries()) {
    setRank({ device: task.device === 'cpu' ? await cpu() : interpreter() });
    const expected = await trainAlone(task);
    const results = byRank.map((each) => each[index]);
    for (const result of results) {
      expect(result).toBeDefined();
      assertAllclose(result?.weights ?? [], expected.weights, { rtol: 1e-5, atol: 1e-5 });
    }
    const dp = size / task.cp;
    const losses = expected.losses.map((_, step) => {
      const own = results.map((each) => each?.losses[step] ?? NaN);
      return own.reduce((sum, each) => sum + each, 0) / own.length;
    });
    if (dp === 1) assertAllclose(losses, expected.losses, { rtol: 1e-5, atol: 1e-5 });
  }
}
