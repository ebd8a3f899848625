import { cpu } from '@shardwise/backend-cpu';
import { setRank, statistics } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { interpreter } from '@shardwise/testing';
import {
  differences,
  readInput,
  readPrograms,
  readSizedPrograms,
} from './support/recorded-program.ts';

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

/** To make more programs than those in the repository, see tools/golden-programs.py. */
const sizedPrograms = readSizedPrograms(
  process.env['SIZED_PROGRAMS'] ?? new URL('./golden/sized-programs.json', import.meta.url),
);

describe.each([
  ['the CPU backend', () => cpu()],
  ['the interpreter', () => Promise.resolve(interpreter())],
] as const)('on %s a program has the results of PyTorch at any sizes', (_, make) => {
  beforeAll(async () => setRank({ device: await make() }));

  const parts = Array.from({ length: Math.ceil(sizedPrograms.length / part) }, (__, i) => i * part);
  const made = { again: 0, other: 0 };
  it.each(parts)('from number %i on', { timeout: 240_000 }, async (first) => {
    const faults: string[] = [];
    for (const [i, runs] of sizedPrograms.slice(first, first + part).entries()) {
      for (const [at, program] of runs.entries()) {
        const before = statistics().plansMade;
        for (const fault of await differences(program, true).catch((error: unknown) => [
          String(error),
        ])) {
          const lines = [...program.in, ...program.do, `roots ${program.roots}`, fault];
          faults.push(`program ${first + i}, run ${at}\n  ${lines.join('\n  ')}`);
        }
        const isSpecial = program.in.some((line) => readInput(line).shape.some((size) => size < 2));
        if (at === 0 || isSpecial) continue;
        if (statistics().plansMade === before) made.again++;
        else made.other++;
      }
    }
    expect(faults).toEqual([]);
  });

  it('and most of them that are above 1 run the plan of others', () => {
    expect(made.again).toBeGreaterThan(made.other);
  });
});
