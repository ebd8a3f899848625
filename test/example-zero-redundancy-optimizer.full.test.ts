import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { repository } from './support/documents.ts';
import type { Ended } from './support/run-command.ts';
import { runShardwise } from './support/run-shardwise.ts';

const script = join(repository, 'examples', 'zero-redundancy-optimizer', 'train.ts');
const layers = 4;
const width = 64;
/** The size of all parameters in MB. */
const parameters = (layers * (width + 1) * width * 4) / 1e6;

let cwd = '';

beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-zero-redundancy-'));
});

afterAll(() => rm(cwd, { recursive: true, force: true }));

function run(...options: readonly string[]): Promise<Ended> {
  const sizes = ['--layers', String(layers), '--width', String(width)];
  return runShardwise(['run', '--nproc', '2', script, ...sizes, ...options], { cwd });
}

/** Returns the numbers in the line that begins with these words. */
function numbersOf({ stdout }: Ended, words: string): readonly number[] {
  const line = stdout.split('\n').find((each) => each.includes(words)) ?? '';
  const rest = line.slice(line.indexOf(words) + words.length);
  return Array.from(rest.matchAll(/-?\d+\.\d+/g), ([number]) => Number(number));
}

describe('the example of the ZeroRedundancyOptimizer', () => {
  let zero: Ended;
  let plain: Ended;

  beforeAll(async () => {
    zero = await run();
    plain = await run('--optimizer', 'Adam');
  }, 240_000);

  it('ends well with both optimizers and says nothing on stderr', () => {
    for (const each of [zero, plain]) {
      expect(each.exitCode, each.output).toBe(0);
      expect(each.stderr).toBe('');
    }
    expect(zero.stdout).toContain('=== ZeroRedundancyOptimizer ===');
    expect(plain.stdout).toContain('=== Adam ===');
  });

  it('prints the most memory up to each phase, which only grows', () => {
    for (const each of [zero, plain]) {
      const peaks = [
        'after creating local model',
        'after creating DDP',
        'before optimizer step()',
        'after optimizer step()',
      ].map((when) => numbersOf(each, when)[0] ?? Number.NaN);
      expect(peaks).toEqual(peaks.toSorted((a, b) => a - b));
      expect(peaks[1]).toBeGreaterThanOrEqual(Number(parameters.toFixed(2)));
    }
  });

  it('keeps a half of the optimizer states on each of two ranks', () => {
    const words = 'parameters, gradients, optimizer states:';
    const [half, whole] = [parameters, 2 * parameters].map((each) => expect.closeTo(each, 2));
    expect(numbersOf(zero, words)).toEqual([half, half, half]);
    expect(numbersOf(plain, words)).toEqual([half, half, whole]);
  });

  it('has the same loss and ends with the same parameters', () => {
    for (const words of ['loss:', 'params sum is:']) {
      expect(numbersOf(zero, words)).toHaveLength(1);
      expect(numbersOf(zero, words)).toEqual(numbersOf(plain, words));
    }
  });

  it('refuses an option that it does not know, naming those that it does', async () => {
    const { exitCode, output } = await run('--depth', '3');
    expect(exitCode).not.toBe(0);
    expect(output).toContain('--layers, --width, --batch-size');
  }, 120_000);
});
