import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { deepspeed } from '@shardwise/compat';
import { replicated, type TensorSource, wholeChunk } from '@shardwise/core/extend';
import { CheckpointError } from 'shardwise';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

const tensors = z.record(z.string(), z.array(z.number()));
const golden = z
  .array(
    z.object({
      stage: z.number(),
      ranks: z.number(),
      files: z.record(z.string(), z.string()),
      weights: tensors,
      exp_avg: tensors,
      exp_avg_sq: tensors,
    }),
  )
  .parse(
    JSON.parse(await readFile(new URL('./golden/zero-checkpoints.json', import.meta.url), 'utf8')),
  );

let root = '';
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'zero-checkpoints-'));
});
afterAll(() => rm(root, { recursive: true }));

async function written(
  files: Readonly<Record<string, string>>,
  folder: string,
  change: (name: string, bytes: Uint8Array) => Uint8Array | null = (_, bytes) => bytes,
): Promise<string> {
  const directory = join(root, folder);
  for (const [name, text] of Object.entries(files)) {
    const bytes = change(name, new Uint8Array(Buffer.from(text, 'base64')));
    if (bytes === null) continue;
    await mkdir(dirname(join(directory, name)), { recursive: true });
    await writeFile(join(directory, name), bytes);
  }
  return directory;
}

async function valuesOf(source: TensorSource): Promise<Record<string, number[]>> {
  const found: Record<string, number[]> = {};
  await using reader = source.open();
  for (const name of source.names) {
    const { shape = [] } = source.get(name) ?? {};
    const values = new Float32Array(shape.reduce((product, size) => product * size, 1));
    const bytes = new Uint8Array(values.buffer);
    await reader.fill(name, wholeChunk(shape), bytes, { layout: replicated(shape) });
    found[name] = [...values];
  }
  return found;
}

describe.each(golden)(
  'a checkpoint of DeepSpeed in stage $stage of $ranks ranks',
  ({ stage, ranks, files, weights, ...states }) => {
    it('has the weights that zero_to_fp32.py finds, and the states of the optimizer', async () => {
      const directory = await written(files, `${stage}-${ranks}`);
      const found = await deepspeed.readZeroCheckpoint(directory);
      expect(found).toMatchObject({ tag: 'global_step7', stage, ranks, step: 6, globalSteps: 7 });
      expect(found.clientState).toEqual({ epoch: 3, note: { best: [0.5, 'loss'] } });
      expect(found.others).toEqual(['scale']);
      expect(await valuesOf(found.weights)).toEqual(weights);
      const { exp_avg: mean, exp_avg_sq: square, ...others } = found.optimizerStates;
      expect(Object.keys(others)).toEqual([]);
      expect(mean && (await valuesOf(mean))).toEqual(states.exp_avg);
      expect(square && (await valuesOf(square))).toEqual(states.exp_avg_sq);
    });

    it('gives any chunk of a tensor', async () => {
      const directory = await written(files, `${stage}-${ranks}-chunk`);
      const { weights: source } = await deepspeed.readZeroCheckpoint(directory, 'global_step7');
      await using reader = source.open();
      const values = new Float32Array(4);
      // Columns 2 and 3 of rows 1 and 2.
      const box = [
        { start: 1, stop: 3 },
        { start: 2, stop: 4 },
      ];
      const chunk = { box, start: 0, stop: 4 };
      const bytes = new Uint8Array(values.buffer);
      await reader.fill('first.weight', chunk, bytes, { layout: replicated([3, 5]) });
      const all = weights['first.weight'] ?? [];
      expect([...values]).toEqual([7, 8, 12, 13].map((index) => all[index]));
    });
  },
);

describe('a folder that is not whole', () => {
  const { files = {} } = golden[1] ?? {};
  const readFrom = (directory: string, tag?: string) => async () =>
    deepspeed.readZeroCheckpoint(directory, tag);

  it('is refused without the file of a rank', async () => {
    const directory = await written(files, 'rank', (name, bytes) =>
      name.includes('rank_1_mp') ? null : bytes,
    );
    await expect(readFrom(directory)).rejects.toThrow(/files of 2 ranks, where 3 saved/);
  });

  it('is refused without the file latest, and with one that leads out of it', async () => {
    const none = await written(files, 'none', (name, bytes) => (name === 'latest' ? null : bytes));
    await expect(readFrom(none)).rejects.toThrow(/no file "latest".* Give the tag/);
    const out = await written(files, 'out', (name, bytes) =>
      name === 'latest' ? new TextEncoder().encode('../elsewhere') : bytes,
    );
    await expect(readFrom(out)).rejects.toThrow(CheckpointError);
    await expect(readFrom(none, 'global_step8')).rejects.toThrow(/global_step8/);
  });

  it('is refused with a file that is cut off', async () => {
    const directory = await written(files, 'cut', (name, bytes) =>
      name.includes('optim') ? bytes.subarray(0, bytes.length / 2) : bytes,
    );
    await expect(readFrom(directory)).rejects.toThrow(CheckpointError);
  });

  it('is refused if several ranks of tensor parallelism saved it', async () => {
    const name = 'global_step7/mp_rank_00_model_states.pt';
    const other = { ...files, [name.replace('_00_', '_01_')]: files[name] ?? '' };
    await expect(readFrom(await written(other, 'mp'))).rejects.toThrow(/tensor or pipeline/);
  });
});
