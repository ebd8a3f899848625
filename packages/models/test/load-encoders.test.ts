import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, manualSeed } from '@shardwise/core';
import {
  BertForMaskedLM,
  BertForSequenceClassification,
  BertModel,
  type PretrainedModel,
} from '@shardwise/models';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { beforeAll, describe, expect, test } from 'vitest';
import { oneRank } from './decoder-cases.ts';

const config = {
  vocabSize: 12,
  hiddenSize: 8,
  numHiddenLayers: 1,
  numAttentionHeads: 2,
  intermediateSize: 8,
  maxPositionEmbeddings: 6,
};

beforeAll(oneRank);

async function saved(model: PretrainedModel): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'shardwise-encoders-'));
  await savePretrained(model, folder);
  return folder;
}

/** Loads a folder into another class than the one that its config names. */
function loadAs(
  architecture: string,
  folder: string,
  allow: { allowMissing?: RegExp[]; allowUnexpected?: RegExp[] } = {},
): Promise<PretrainedModel> {
  return fromPretrained(folder, { ...allow, config: { architectures: [architecture] } });
}

/** Expects that all states of one model below its base are those of the other. */
async function expectSameEncoder(found: PretrainedModel, expected: PretrainedModel): Promise<void> {
  const [ours, theirs] = [await found.stateDict(), await expected.stateDict()];
  const bare = (name: string): string => name.replace(/^bert\./, '');
  const byName = new Map(Object.entries(theirs).map(([name, array]) => [bare(name), array]));
  const shared = Object.entries(ours).filter(([name]) => byName.has(bare(name)));
  expect(shared.length).toBeGreaterThan(20);
  for (const [name, { bytes }] of shared)
    expect(bytes, name).toEqual(byName.get(bare(name))?.bytes);
}

describe('a folder of an encoder', () => {
  test('is loaded into a classifier, whose new head is allowed by name', async () => {
    manualSeed(1);
    const encoder = new BertModel(config);
    const folder = await saved(encoder);
    manualSeed(2);
    const refused = loadAs('BertForSequenceClassification', folder);
    await expect(refused).rejects.toThrow(CheckpointError);
    await expect(refused).rejects.toThrow('classifier.weight');
    const model = await loadAs('BertForSequenceClassification', folder, {
      allowMissing: [/^classifier\./],
    });
    expect(model).toBeInstanceOf(BertForSequenceClassification);
    await expectSameEncoder(model, encoder);
    // The new head is drawn, and not left at zeros.
    const head = new Map(model.namedParameters()).get('classifier.weight');
    expect((await head?.data())?.every((value) => Number(value) === 0)).toBe(false);
  });

  test('is loaded from that of a classifier', async () => {
    manualSeed(3);
    const classifier = new BertForSequenceClassification(config);
    const folder = await saved(classifier);
    const model = await loadAs('BertModel', folder, { allowUnexpected: [/^classifier\./] });
    expect(model).toBeInstanceOf(BertModel);
    await expectSameEncoder(model, classifier);
  });

  test('of a masked language model has its shared weight once, and keeps it shared', async () => {
    manualSeed(4);
    const language = new BertForMaskedLM(config);
    const model = await fromPretrained(await saved(language));
    await expectSameEncoder(model, language);
    if (!(model instanceof BertForMaskedLM)) throw new TypeError('another class');
    const { decoder, bias } = model.cls.predictions;
    expect(decoder.weight).toBe(model.bert.embeddings.wordEmbeddings.weight);
    expect(decoder.bias).toBe(bias);
  });
});
