import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { runRanks } from '../../../test/support/run-ranks.ts';
import {
  cases,
  isPossible,
  type Outcome,
  outcomes,
  trainAlone,
  variants,
} from './ranks/freezing.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;
const alone = new Map<string, Outcome>();
let ranks: readonly z.infer<typeof outcomes>[] = [];

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const name of Object.keys(cases)) alone.set(name, await trainAlone(name));
  const found = await runRanks(size, new URL('./ranks/freezing.ts', import.meta.url), {
    world: createThreadsWorld({ size, arenaBytes: 64 * 1024 * 1024 }),
    timeoutMs: trainingMs,
  });
  ranks = z.array(outcomes).length(size).parse(found);
}, testMs);

describe.each(Object.keys(variants))('%s', (variant) => {
  it.each(Object.keys(cases).filter((name) => isPossible(variant, name)))(
    'trains as one rank does: %s',
    (name) => {
      const expected = alone.get(name) ?? {};
      const each = ranks.map(({ trained }): Outcome => trained[`${variant}: ${name}`] ?? {});
      expect(Object.keys(expected)).not.toHaveLength(0);
      for (const parameters of variant === 'DataParallel' ? each.slice(0, 1) : each) {
        expect(parameters).toEqual(each[0]);
        expect(Object.keys(parameters)).toEqual(Object.keys(expected));
        for (const [key, values] of Object.entries(parameters)) {
          values.forEach((value, index) => {
            const difference = value - (expected[key]?.[index] ?? NaN);
            expect(Math.abs(difference), `${key}[${index}]`).toBeLessThan(2e-5);
          });
        }
      }
    },
  );
});

it('ranks that freeze different parameters hear of both', () => {
  for (const { disagreement } of ranks) {
    expect(disagreement).toMatch(/^COLLECTIVE_MISMATCH Call #\d+ on rank 0 is allReduce/);
    expect(disagreement).toContain('layers.1.bias, layers.1.weight, layers.0.weight');
    expect(disagreement).toContain('layers.1.weight, layers.0.bias, layers.0.weight');
  }
});
