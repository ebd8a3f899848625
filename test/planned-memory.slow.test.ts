import { describe, expect, it } from 'vitest';
import { compareMemory } from '../bench/memory.ts';
import { isMemoryModel, memoryModels } from '../bench/memory-models.ts';
import { isMemoryStrategy, memoryStrategies } from '../bench/memory-strategies.ts';

const rows = Object.keys(memoryModels)
  .filter(isMemoryModel)
  .flatMap((model) =>
    Object.keys(memoryStrategies)
      .filter(isMemoryStrategy)
      .map((strategy) => ({ model, strategy })),
  );

describe('the peak of the allocator of four ranks', () => {
  it.each(rows)(
    'is within 5 % of what was planned: $model, $strategy',
    async ({ model, strategy }) => {
      const { peakBytes, plannedPeakBytes } = await compareMemory(model, strategy);
      expect(Math.abs(peakBytes / plannedPeakBytes - 1)).toBeLessThan(0.05);
    },
    300_000,
  );
});
