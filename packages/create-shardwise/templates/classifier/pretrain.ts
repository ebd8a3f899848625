import { join } from 'node:path';
import {
  maskedLanguageModelCollate,
  tensorsOf,
  type TokenRows,
  trainWordPieces,
} from '@shardwise/data';
import { saveTokenizer } from '@shardwise/data/node';
import { BertForMaskedLM } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { data, dist, Generator, optim, type RankContext } from 'shardwise';
import type { Texts } from './texts.ts';

const STEPS = 60;

/**
 * Makes a vocabulary of the texts, and trains a small BERT to find words that are hidden from it. Returns the folder with
 * the model and its tokenizer. Give train.ts a folder of a larger model, and you can delete this file.
 */
export async function pretrain(
  { rows }: Texts,
  maxLength: number,
  { rank, worldSize, runDirectory }: RankContext,
): Promise<string> {
  const texts = rows.map(({ text }) => text);
  const tokenizer = trainWordPieces(texts, { vocabularySize: 1000 });
  const samples = texts.map((text) => ({
    inputIds: data.ndArray(Int32Array.from(tokenizer.encode(text, { maxLength }).inputIds)),
  }));
  const dataset = { length: samples.length, get: (index: number) => samples[index] ?? {} };
  const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank });
  // Each rank masks other words, so it has a generator of its own.
  const generator = new Generator(1 + rank);
  const collate = maskedLanguageModelCollate({ tokenizer, generator, length: maxLength });
  const loader = new data.DataLoader<TokenRows>({ dataset, batchSize: 16, sampler, collate });

  const model = new BertForMaskedLM({
    vocabSize: tokenizer.vocabularySize,
    hiddenSize: 64,
    numHiddenLayers: 2,
    numAttentionHeads: 2,
    intermediateSize: 256,
    maxPositionEmbeddings: maxLength,
  });
  const parallel = await dist.parallelize(model, dist.ddp());
  const optimizer = new optim.AdamW(model.parameters(), { lr: 2e-3 });
  for (let step = 0; step < STEPS;) {
    for await (const batch of loader) {
      const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
      const loss = parallel.forward(inputIds, call);
      optimizer.zeroGrad();
      loss.backward();
      await optimizer.step();
      step++;
      if (rank === 0 && step % 20 === 0) {
        console.log(`pre-training ${step}/${STEPS}: loss ${(await loss.item()).toFixed(2)}`);
      }
      if (step === STEPS) break;
    }
  }
  const folder = join(runDirectory, 'encoder');
  await saveTokenizer(tokenizer, folder);
  await savePretrained(model, folder); // All ranks wait here until the folder is complete.
  return folder;
}
