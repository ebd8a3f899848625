import { createThreadsWorld } from '@shardwise/collectives';
import { closeShmWorld, createShmWorld, shmAvailability } from '@shardwise/collectives/node';
import { spawnRanks } from '@shardwise/testing/node';
import { afterAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ProcessPool } from './process-pool.ts';

const moduleUrl = new URL('./shm-training.ts', import.meta.url);
const arenaBytes = 16 << 20;
const size = 2;

const training = z.object({
  losses: z.array(z.number()).length(5),
  parameters: z.array(z.array(z.number())).length(4),
  stagedBytes: z.number(),
});

describe.skipIf(!shmAvailability().available)('data-parallel training on processes', () => {
  const pool = new ProcessPool();
  afterAll(() => pool.end());

  it('gives the bits of threads, from tensors that no collective copies', async () => {
    const world = createShmWorld({ size, arenaBytes });
    const outcomes = await pool.run(size, moduleUrl, { name: 'onProcesses', world });
    closeShmWorld(world);
    const values = outcomes.map((outcome) => {
      if (outcome.status === 'rejected') throw outcome.error;
      return training.parse(outcome.value);
    });
    const threads = await spawnRanks(size, moduleUrl, {
      name: 'onThreads',
      world: createThreadsWorld({ size, arenaBytes }),
    });
    expect(values).toEqual(threads);
    expect(values[0]?.parameters).toEqual(values[1]?.parameters);
    expect(values[0]?.losses).not.toEqual(values[1]?.losses);
    for (const { losses, stagedBytes } of values) {
      expect(losses[4]).toBeLessThan(losses[0] ?? 0);
      expect(stagedBytes).toBe(0);
    }
  });
});
