import { cpu } from '@shardwise/backend-cpu';
import { setRank, statistics } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { differences, readPrograms } from './support/recorded-program.ts';

const operations = readPrograms(new URL('./golden/operations.json', import.meta.url));
const programs = readPrograms(
  process.env['PROGRAMS'] ?? new URL('./golden/programs.json', import.meta.url),
);
const part = 50;

describe('values and gradients of plans that take any sizes are those of PyTorch', () => {
  beforeAll(async () => setRank({ device: await cpu() }));

  const all = [...operations, ...programs];
  const parts = Array.from({ length: Math.ceil(all.length / part) }, (_, i) => i * part);
  it.each(parts)('of random programs from number %i on', { timeout: 240_000 }, async (first) => {
    const faults: string[] = [];
    for (const [i, program] of all.slice(first, first + part).entries()) {
      for (const fault of await differences(program, true)) {
        faults.push(`program ${first + i}: ${program.do.join(', ')}: ${fault}`);
      }
    }
    expect(faults).toEqual([]);
  });

  it('and many of them are such plans', () => {
    expect(statistics().sizedPlansMade).toBeGreaterThan(300);
  });
});
