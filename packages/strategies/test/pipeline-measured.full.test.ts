import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { z } from 'zod';
import { measured } from './ranks/pipeline-measured.ts';
import { trainingMs } from './time-limits.ts';

it('a pipeline that was cut by what ranks have measured, or chose its schedule so, trains as one rank', async () => {
  const size = 2;
  const world = createThreadsWorld({ size, arenaBytes: 16 * 1024 * 1024 });
  const url = new URL('./ranks/pipeline-measured.ts', import.meta.url);
  const found = await spawnRanks(size, url, { world, timeoutMs: trainingMs });
  const ranks = z.array(measured).length(size).parse(found);
  for (const { costs, alone, piped, explained } of ranks) {
    // The costs must be exactly equal, because ranks that cut the model at different places would wait for each other.
    expect(costs).toBe(ranks[0]?.costs);
    for (const losses of Object.values(piped)) {
      for (const [step, loss] of losses.entries()) expect(loss).toBeCloseTo(alone[step] ?? NaN, 5);
    }
    expect(explained).toMatch(/rank +stages +parameters +live +live bytes +sends/);
    expect(explained).not.toContain('take 1 ms each');
  }
});
