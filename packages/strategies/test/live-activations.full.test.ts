import { createThreadsWorld } from '@shardwise/collectives';
import { type ScheduleName, scheduleNames } from '@shardwise/strategies';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { liveActivations } from './ranks/live-activations.ts';
import { testMs, trainingMs } from './time-limits.ts';

const schedules: readonly ScheduleName[] = scheduleNames.filter((name) => name !== 'forwardOnly');

describe('what a rank keeps of activations', () => {
  let ranks: readonly z.infer<typeof liveActivations>[] = [];

  beforeAll(async () => {
    const size = 2;
    const world = createThreadsWorld({ size, arenaBytes: 32 * 1024 * 1024 });
    const url = new URL('./ranks/live-activations.ts', import.meta.url);
    const found = await spawnRanks(size, url, { world, data: schedules, timeoutMs: trainingMs });
    ranks = z.array(liveActivations).length(size).parse(found);
  }, testMs);

  it.each(schedules)('is never more than the checker counts: %s', (schedule) => {
    for (const rank of ranks) {
      const { microbatches, bytes, counted, told } = rank[schedule] ?? expect.fail(schedule);
      expect(microbatches).toBe(counted.microbatches);
      expect(bytes).toBeLessThanOrEqual(counted.bytes);
      // The reported memory includes activations on their way between stages.
      expect(told).toBeGreaterThanOrEqual(bytes);
      expect(told).toBeLessThan(1.2 * counted.bytes);
      // The count is not much too large either.
      expect(bytes).toBeGreaterThan(0.6 * counted.bytes);
    }
  });
});
