import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { setRank } from '@shardwise/core';
import { describeDifference } from '@shardwise/testing';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { caseParts, strategies, trainAlone, type Trained, trained } from './ranks/operations.ts';
import { testMs, trainingMs } from './time-limits.ts';

const size = 2;
const tolerance = { rtol: 1e-3, atol: 1e-4 };
const parts = caseParts();
let ranks: readonly Readonly<Record<string, Trained[]>>[] = [];
const alone: Trained[] = [];

beforeAll(async () => {
  setRank({ device: await cpu() });
  for (const cases of parts) alone.push(await trainAlone(cases));
  const url = new URL('./ranks/operations.ts', import.meta.url);
  const world = createThreadsWorld({ size, arenaBytes: 128 * 1024 * 1024 });
  ranks = z
    .array(z.record(z.string(), z.array(trained)))
    .parse(await spawnRanks(size, url, { world, timeoutMs: trainingMs }));
}, testMs);

describe.each(Object.keys(strategies))('under %s', (strategy) => {
  it('each operation has the values and gradients of one rank', () => {
    const faults: string[] = [];
    for (const [i, cases] of parts.entries()) {
      const each = ranks.map((rank) => rank[strategy]?.[i]);
      for (const [index, { name }] of cases.entries()) {
        const loss = each.reduce((sum, rank) => sum + (rank?.losses[index] ?? NaN), 0) / size;
        const fault = describeDifference([loss], [alone[i]?.losses[index] ?? NaN], tolerance);
        if (fault !== undefined) faults.push(`loss of ${name}: ${fault}`);
      }
      for (const [parameter, values] of Object.entries(alone[i]?.state ?? {})) {
        const name = cases[Number(parameter.split('.')[1])]?.name ?? '';
        for (const rank of each) {
          const fault = describeDifference(rank?.state[parameter] ?? [], values, tolerance);
          if (fault !== undefined) faults.push(`${parameter} of ${name}: ${fault}`);
        }
      }
    }
    expect(faults).toEqual([]);
  });
});
