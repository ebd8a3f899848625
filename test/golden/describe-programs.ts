import type { Backend } from '@shardwise/core/spec';
import { setRank } from '@shardwise/core';
import { beforeAll, describe, expect, it } from 'vitest';
import { differences, readPrograms, type RecordedProgram } from '../support/recorded-program.ts';

const kinks = readPrograms(new URL('./kinks.json', import.meta.url));
const operations = readPrograms(new URL('./operations.json', import.meta.url));
/** To make more programs than those in the repository, see tools/golden-programs.py. */
const programs = readPrograms(
  process.env['PROGRAMS'] ?? new URL('./programs.json', import.meta.url),
);
const PART = 50;
/** A driver of WebGPU that computes on the CPU compiles the kernels of a part in seconds, on a busy machine in more. */
const timeout = 300_000;

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

/** Tests that a backend has the values and gradients that PyTorch recorded (tools/golden-programs.py). */
export function describePrograms(name: string, make: () => Backend | Promise<Backend>): void {
  describe(`values and gradients on ${name} are those of PyTorch`, { timeout }, () => {
    beforeAll(async () => setRank({ device: await make() }));

    it.each(
      [...kinks, ...operations].map(
        (program) => [`${program.do.join(', ')} of ${program.in.join('; ')}`, program] as const,
      ),
    )('of %s', async (_title, program) => {
      expect(await failures([program])).toEqual([]);
    });

    const parts = Array.from({ length: Math.ceil(programs.length / PART) }, (_, i) => i * PART);
    it.each(parts)('of random programs from number %i on', async (first) => {
      expect(await failures(programs.slice(first, first + PART), first)).toEqual([]);
    });
  });
}
