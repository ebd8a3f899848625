import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { repository } from './support/documents.ts';
import type { Ended } from './support/run-command.ts';
import { runShardwise } from './support/run-shardwise.ts';

const script = join(repository, 'examples', 'lora', 'train.ts');
const text = join(repository, 'README.md');
const configSchema = z.object({
  peft_type: z.string(),
  r: z.number(),
  base_model_name_or_path: z.string(),
});

let cwd = '';

beforeAll(async () => {
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-lora-'));
  const lines = Array.from({ length: 80 }, (_, index) =>
    JSON.stringify({ instruction: `Double ${index}`, output: String(2 * index) }),
  );
  await writeFile(join(cwd, 'instructions.jsonl'), lines.join('\n'));
});

afterAll(() => rm(cwd, { recursive: true, force: true }));

function train(runDirectory: string, ...options: readonly string[]): Promise<Ended> {
  const few = ['--steps', '4', '--batch-size', '4', '--max-length', '48', '--sample-tokens', '2'];
  return runShardwise(
    ['run', '--nproc', '2', '--run-dir', runDirectory, script, ...few, ...options],
    { cwd },
  );
}

describe('the example of adapters, on two ranks', { timeout: 300_000 }, () => {
  it('pre-trains a Llama, trains an adapter on lines of instructions, and saves it as PEFT does', async () => {
    const { exitCode, output } = await train(
      'own',
      '--text',
      text,
      '--pretraining-steps',
      '3',
      '--data',
      'instructions.jsonl',
    );
    expect(exitCode, output).toBe(0);
    expect(output).toMatch(/pre-training 3\/3: loss \d/);
    expect(output).toMatch(/\d+ of \d+ parameters train, on 72 instructions/);
    expect(output).toMatch(/answers before training:\n {2}Double 9 -> /);
    expect(output).toMatch(/answers after training:\n {2}Double 9 -> /);
    const adapter = join(cwd, 'own', 'adapter');
    expect((await readdir(adapter)).toSorted()).toEqual([
      'adapter_config.json',
      'adapter_model.safetensors',
    ]);
    const config: unknown = JSON.parse(
      await readFile(join(adapter, 'adapter_config.json'), 'utf8'),
    );
    expect(configSchema.parse(config)).toEqual({
      peft_type: 'LORA',
      r: 8,
      base_model_name_or_path: expect.stringMatching(/own.base$/),
    });
  });

  it('continues from a folder, whose weights it may keep in 4 bits', async () => {
    const { exitCode, output } = await train(
      'quantized',
      '--model',
      join('own', 'base'),
      '--text',
      text,
      '--bits',
      '4',
    );
    expect(exitCode, output).toBe(0);
    expect(output).not.toContain('pre-training');
    expect(output).toContain('Write in capitals: ');
  });

  it('names the line that is no instruction', async () => {
    await writeFile(
      join(cwd, 'wrong.jsonl'),
      '{"instruction": "a", "output": "b"}\n{"question": 1}\n',
    );
    const { exitCode, output } = await train('wrong', '--data', 'wrong.jsonl');
    expect(exitCode).toBe(1);
    expect(output).toMatch(/DataError: the row of wrong\.jsonl, line 2/);
  });
});
