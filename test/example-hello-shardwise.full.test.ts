import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { repository } from './support/documents.ts';
import type { Ended } from './support/run-command.ts';
import { runShardwise } from './support/run-shardwise.ts';

const folder = join(repository, 'examples', 'hello-shardwise');
const small = ['--layers', '2', '--heads', '2', '--channels', '32', '--max-length', '32'];
const few = [
  '--steps',
  '12',
  '--batch-size',
  '4',
  '--warmup-steps',
  '2',
  '--learning-rate',
  '1e-2',
];
const metricsSchema = z.object({ loss: z.number() });
const checkpoints = ['--checkpoint-every', '6'];
const timeoutMs = 240_000;

let cwd = '';

beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-hello-'));
  const lines = Array.from({ length: 400 }, (_, i) => `${i}. one fox jumps over ${i % 7} dogs`);
  await writeFile(join(cwd, 'text.txt'), lines.join('\n'));
});

afterAll(() => rm(cwd, { recursive: true, force: true }));

function run(script: string, runDirectory: string, ...first: readonly string[]): Promise<Ended> {
  const args = ['run', '--nproc', '2', '--run-dir', runDirectory, ...first, join(folder, script)];
  return runShardwise([...args, '--data', 'text.txt', ...small, ...few, ...checkpoints], { cwd });
}

async function lossesOf(runDirectory: string): Promise<readonly number[]> {
  const text = await readFile(join(cwd, runDirectory, 'metrics.jsonl'), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => metricsSchema.parse(JSON.parse(line)).loss);
}

/** The bytes of optimizer states that rank 0 says it keeps, in MB. */
function statesOf({ output }: Ended): number {
  return Number(/and (\d+\.\d+) MB of optimizer states/.exec(output)?.[1]);
}

describe('the first example of masked language models', { timeout: timeoutMs }, () => {
  it('learns on two ranks, and with ZeRO in 16 bits by one other line, in half of the memory for states', async () => {
    const plain = await run('train.ts', 'plain');
    const zero = await run('train-zero.ts', 'zero');
    for (const each of [plain, zero]) {
      expect(each.exitCode, each.output).toBe(0);
      expect(each.stderr).toBe('');
    }
    const [losses, sixteenBits] = [await lossesOf('plain'), await lossesOf('zero')];
    expect(losses).toHaveLength(12);
    expect(losses.at(-1)).toBeLessThan((losses[0] ?? 0) - 1);
    for (const [step, loss] of losses.entries()) {
      expect(Math.abs((sixteenBits[step] ?? Number.NaN) - loss), `step ${step}`).toBeLessThan(0.1);
    }
    // In 16 bits, the f32 parameters that the optimizer updates count as states, too: 12 bytes, halved, of 8.
    expect(statesOf(zero) / statesOf(plain)).toBeLessThan(0.8);
  });

  it('continues from a checkpoint with the losses of the run that was not interrupted', async () => {
    const checkpoint = join('plain', 'checkpoints', 'step-000006');
    const rest = await run('train.ts', 'rest', '--resume', checkpoint);
    expect(rest.exitCode, rest.output).toBe(0);
    expect(await lossesOf('rest')).toEqual((await lossesOf('plain')).slice(6));
  });

  it('differs in one line of code', async () => {
    const lines = await Promise.all(
      ['train.ts', 'train-zero.ts'].map(async (file) => {
        const text = await readFile(join(folder, file), 'utf8');
        return text.slice(text.indexOf('*/')).split('\n');
      }),
    );
    const [plain = [], zero = []] = lines;
    expect(plain).toHaveLength(zero.length);
    expect(plain.filter((line, i) => line !== zero[i])).toHaveLength(1);
  });
});
