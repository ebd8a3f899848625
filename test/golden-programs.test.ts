import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { beforeAll, describe, expect, it } from 'vitest';
import { differences, readPrograms, type RecordedProgram } from './support/recorded-program.ts';

const kinks = readPrograms(new URL('./golden/kinks.json', import.meta.url));
const operations = readPrograms(new URL('./golden/operations.json', import.meta.url));
/** To make more programs than those in the repository, see tools/golden-programs.py. */
const programs = readPrograms(
  process.env['PROGRAMS'] ?? new URL('./golden/programs.json', import.meta.url),
);
const PART = 50;

async function failures(list: readonly RecordedProgram[], first = 0): Promise<string[]> {
  const found: string[] = [];
  for (const [i, program] of list.entries()) {
    let faults: readonly string[];
    try {
      faults = await differences(program);
    } catch (error) {
      faults = [String(error)];
    }
    if (faults.length > 0) {
      const lines = [...program.in, ...program.do, `roots ${program.roots}`, ...faults];
      found.push(`program ${first + i}\n  ${lines.join('\n  ')}`);
    }
  }
  return found;
}

describe.each([
  ['the CPU backend', () => cpu()],
  ['the interpreter', () => Promise.resolve(interpreter())],
] as const)('values and gradients on %s are those of PyTorch', (_, make) => {
  beforeAll(async () => setRank({ device: await make() }));

  it.each(
    [...kinks, ...operations].map(
      (program) => [`${program.do.join(', ')} of ${program.in.join('; ')}`, program] as const,
    ),
  )('of %s', async (_title, program) => {
    expect(await failures([program])).toEqual([]);
  });

  const parts = Array.from({ length: Math.ceil(programs.length / PART) }, (_part, i) => i * PART);
  it.each(parts)('of random programs from number %i on', { timeout: 120_000 }, async (first) => {
    expect(await failures(programs.slice(first, first + PART), first)).toEqual([]);
  });
});
