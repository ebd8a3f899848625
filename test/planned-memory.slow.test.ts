import { describe, expect, it } from 'vitest';
import { dist } from 'shardwise';
import { isMemoryModel, memoryModels } from '../bench/memory-models.ts';
import { plannedPeakBytes } from '../bench/memory-plan.ts';
import { isMemoryStrategy, memoryStrategies } from '../bench/memory-strategies.ts';
import { runRanks } from './support/run-ranks.ts';

const RANKS = 4;
/** The rows of a rank's batch. The benchmark has more, which take longer and need more memory for activations alone. */
const ROWS = 2;

const rows = Object.keys(memoryModels)
  .filter(isMemoryModel)
  .flatMap((model) =>
    Object.keys(memoryStrategies)
      .filter(isMemoryStrategy)
      .map((strategy) => ({ model, strategy, rows: ROWS })),
  );

describe('the peak of the allocator of four ranks', () => {
  it.each(rows)(
    'is within 5 % of what was planned: $model, $strategy',
    async (task) => {
      const planned = await plannedPeakBytes(task, RANKS);
      const peaks = await runRanks(RANKS, new URL('./planned-memory-ranks.ts', import.meta.url), {
        world: dist.transports.createThreadsWorld({ size: RANKS }),
        data: task,
        timeoutMs: 240_000,
      });
      for (const peak of peaks) expect(Math.abs(Number(peak) / planned - 1)).toBeLessThan(0.05);
    },
    300_000,
  );
});
