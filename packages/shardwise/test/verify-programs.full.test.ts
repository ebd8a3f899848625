import { createThreadsWorld } from '@shardwise/collectives';
import { expect, it } from 'vitest';
import { runRanks } from '../../../test/support/run-ranks.ts';
import { drawnPrograms } from './ranks/verify-programs.ts';

it.each([
  [2, 12, 60],
  [4, 60, 100],
])(
  'on %d ranks, finds nothing in the right programs %d to %d',
  async (ranks, first, end) => {
    const module = new URL('./ranks/verify-programs.ts', import.meta.url);
    const world = createThreadsWorld({ size: ranks });
    const seeds = Array.from({ length: end - first }, (_, index) => first + index);
    const [found] = await runRanks(ranks, module, { world, data: seeds, timeoutMs: 600_000 });
    const drawn = drawnPrograms.parse(found);
    expect(drawn.filter(({ verification }) => verification.finding !== null)).toEqual([]);
    expect(drawn).toHaveLength(seeds.length);
  },
  600_000,
);
