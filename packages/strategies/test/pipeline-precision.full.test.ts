import { createThreadsWorld } from '@shardwise/collectives';
import { spawnRanks } from '@shardwise/testing/node';
import { describe, expect, it, beforeAll } from 'vitest';
import { z } from 'zod';
import { outcome, type PrecisionTask } from './ranks/pipeline-precision.ts';

const two = { schedule: '1f1b', cut: ['blocks.2'] } as const;
const tasks = {
  f32: { dtype: null, ...two },
  bf16: { dtype: 'bf16', ...two },
  f16: { dtype: 'f16', ...two },
  'bf16 in a V': { dtype: 'bf16', schedule: 'zbv', cut: ['blocks.1', 'blocks.2', 'blocks.3'] },
} as const satisfies Readonly<Record<string, PrecisionTask>>;

describe('a pipeline that computes in 16 bits', () => {
  let ranks: readonly z.infer<typeof outcome>[] = [];

  beforeAll(async () => {
    const world = createThreadsWorld({ size: 2, arenaBytes: 32 * 1024 * 1024 });
    const moduleUrl = new URL('./ranks/pipeline-precision.ts', import.meta.url);
    ranks = z.array(outcome).parse(await spawnRanks(2, moduleUrl, { world, data: tasks }));
  });

  it.each(Object.keys(tasks))('has the losses of one rank, to what 16 bits tell: %s', (name) => {
    const { alone, piped } = ranks[0]?.[name] ?? expect.fail(name);
    const digits = name === 'f32' ? 4 : 2;
    for (const [step, loss] of alone.losses.entries()) {
      expect(piped.losses[step], `step ${step}`).toBeCloseTo(loss, digits);
    }
    expect(piped.losses.at(-1)).toBeLessThan(piped.losses[0] ?? 0);
  });

  it.each(Object.keys(tasks))(
    'decides of each step once for all stages, as one rank: %s',
    (name) => {
      for (const rank of ranks) {
        const { alone, piped } = rank[name] ?? expect.fail(name);
        expect(piped.taken).toEqual(alone.taken);
        expect(piped.scales).toEqual(alone.scales);
        expect(piped.losses).toEqual(ranks[0]?.[name]?.piped.losses);
      }
      const { taken } = ranks[0]?.[name]?.piped ?? expect.fail(name);
      expect(taken.includes(false)).toBe(name === 'f16');
      expect(taken.at(-1)).toBe(true);
    },
  );

  it('a pipeline that computes in 16 bits sends half the bytes', () => {
    const bytes = (name: string): number | undefined => ranks[0]?.[name]?.piped.sentBytes;
    expect(bytes('f32')).toBe(2 * 5 * 8 * 4);
    expect(bytes('bf16')).toBe(2 * 5 * 8 * 2);
    expect(bytes('f16')).toBe(2 * 5 * 8 * 2);
  });
});
