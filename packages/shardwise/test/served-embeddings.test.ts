import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { startServing } from '../src/serve/start-serving.ts';
import { usualServing } from './serve-options.ts';

const vector = z.array(z.number());
// Made by tools/golden-embeddings.py.
const goldenSchema = z.object({
  files: z.record(z.string(), z.unknown()),
  rows: z.array(
    z.object({ text: z.string(), tokens: z.array(z.int()), mean: vector, first: vector }),
  ),
});
const answerSchema = z.object({
  data: z.array(z.object({ embedding: vector })),
  usage: z.object({ prompt_tokens: z.int() }),
});
const file = join(import.meta.dirname, 'golden/embeddings.json');
const { files, rows } = goldenSchema.parse(JSON.parse(await readFile(file, 'utf8')));

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'shardwise-embeddings-'));
  for (const [name, content] of Object.entries(files)) {
    const bytes =
      typeof content === 'string' ? Buffer.from(content, 'base64') : JSON.stringify(content);
    await writeFile(join(folder, name), bytes);
  }
});
afterAll(() => rm(folder, { recursive: true }));

/** The vectors of the rows by a server of the folder, asked for by their texts or by their tokens. */
async function vectorsOf(asked: 'text' | 'tokens'): Promise<number[][]> {
  const serving = await startServing({
    model: folder,
    ...usualServing,
    name: 'bert',
  });
  try {
    const input =
      asked === 'text' ? rows.map(({ text }) => text) : rows.map(({ tokens }) => tokens);
    const response = await fetch(`${serving.server.url}/v1/embeddings`, {
      method: 'POST',
      body: JSON.stringify({ model: 'bert', input }),
    });
    const { data, usage } = answerSchema.parse(await response.json());
    expect(usage.prompt_tokens).toBe(rows.reduce((sum, { tokens }) => sum + tokens.length, 0));
    return data.map(({ embedding }) => embedding);
  } finally {
    await serving.server.close(0);
    await serving.dispose();
  }
}

function expectClose(found: readonly number[][], expected: readonly number[][]): void {
  expect(found).toHaveLength(expected.length);
  for (const [row, own] of expected.entries()) {
    for (const [at, value] of own.entries()) expect(found[row]?.[at]).toBeCloseTo(value, 5);
  }
}

describe("The vectors of a folder of BERT are those of Python's transformers", () => {
  test.each(['text', 'tokens'] as const)('means of tokens, asked for by %s', async (asked) => {
    expectClose(
      await vectorsOf(asked),
      rows.map(({ mean }) => mean),
    );
  });

  test('those of the first token', async () => {
    const modules = ['Transformer', 'Pooling'].map((name) => ({
      type: `sentence_transformers.models.${name}`,
      path: name === 'Pooling' ? '1_Pooling' : '',
    }));
    await writeFile(join(folder, 'modules.json'), JSON.stringify(modules));
    await mkdir(join(folder, '1_Pooling'));
    await writeFile(
      join(folder, '1_Pooling/config.json'),
      JSON.stringify({ pooling_mode_cls_token: true }),
    );
    expectClose(
      await vectorsOf('text'),
      rows.map(({ first }) => first),
    );
  });
});
