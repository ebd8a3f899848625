import { copyFile, mkdtemp, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BertForSequenceClassification, modelFromConfig, architectures } from '@shardwise/models';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { repository } from '../../../test/support/documents.ts';
import type { Ended } from '../../../test/support/run-command.ts';
import { runShardwise } from '../../../test/support/run-shardwise.ts';
import { expectClose, oneRank } from './decoder-cases.ts';
import { fill } from './golden/formulas.ts';

const script = join(repository, 'examples', 'bert-classifier', 'train.ts');
const golden = join(import.meta.dirname, 'golden', 'bert-classifier');
const texts = join(golden, 'texts.jsonl');
const goldenSchema = z.object({ options: z.array(z.string()), losses: z.array(z.number()) });
const metricsSchema = z.object({ loss: z.number() });
const timeoutMs = 300_000;

let cwd = '';

beforeAll(async () => {
  await oneRank();
  cwd = await mkdtemp(join(tmpdir(), 'shardwise-bert-classifier-'));
});

function train(...options: readonly string[]): Promise<Ended> {
  return runShardwise(['run', '--nproc', '2', ...options], { cwd });
}

async function readJson(path: string): Promise<unknown> {
  return JSON.parse(await readFile(path, 'utf8'));
}

/** Makes the folder of the small BERT of tools/golden-bert-classifier.py. */
async function smallBert(): Promise<string> {
  const folder = join(cwd, 'small-bert');
  const model = modelFromConfig(await readJson(join(golden, 'config.json')), architectures);
  await fill(model);
  await savePretrained(model, folder);
  for (const file of ['tokenizer.json', 'tokenizer_config.json']) {
    await copyFile(join(golden, file), join(folder, file));
  }
  return folder;
}

describe('the example of a classifier', { timeout: timeoutMs }, () => {
  test('has the losses of the same script in PyTorch at each step, on two ranks', async () => {
    const { options, losses } = goldenSchema.parse(await readJson(join(golden, 'losses.json')));
    const folder = await smallBert();
    const inputs = ['--model', folder, '--data', texts];
    const { exitCode, output } = await train('--run-dir', 'golden', script, ...inputs, ...options);
    expect(exitCode, output).toBe(0);
    const lines = (await readFile(join(cwd, 'golden', 'metrics.jsonl'), 'utf8')).trim().split('\n');
    const found = lines.map((line) => metricsSchema.parse(JSON.parse(line)).loss);
    expectClose(found, losses);
  });

  test('pre-trains an encoder, keeps the best model and says its accuracy', async () => {
    const small = ['--layers', '1', '--heads', '2', '--channels', '16', '--max-length', '12'];
    const few = ['--vocabulary-size', '60', '--pretraining-steps', '3', '--batch-size', '4'];
    const options = [...small, ...few, '--data', texts, '--epochs', '4', '--learning-rate', '1e-2'];
    const { exitCode, output } = await train('--run-dir', 'own', script, ...options);
    expect(exitCode, output).toBe(0);
    expect(output).toMatch(/pre-training 3\/3: loss \d/);
    expect(output).toMatch(/step 4: \d+\.\d\d % of the validation set, the best so far/);
    expect(output).toMatch(/the best model has \d+\.\d\d % of the test set right/);
    const best = join(cwd, 'own', 'best');
    expect(await readdir(best)).toEqual(
      expect.arrayContaining(['config.json', 'model.safetensors', 'tokenizer.json']),
    );
    const model = await fromPretrained(best);
    expect(model).toBeInstanceOf(BertForSequenceClassification);
    expect(model.configJson()['id2label']).toEqual({ 0: 'ham', 1: 'spam' });
  });

  test('refuses a line that is no text with a label, and names it', async () => {
    const { exitCode, output } = await train(script, '--data', join(golden, 'config.json'));
    expect(exitCode).not.toBe(0);
    expect(output).toMatch(/the row of .*config\.json, line 1/);
  });
});
