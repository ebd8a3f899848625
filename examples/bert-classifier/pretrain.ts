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
import { learningRateAt } from './learning-rate.ts';
import type { Options } from './options.ts';
import type { LabelledText } from './texts.ts';
import { TokenDataset } from './token-dataset.ts';

/**
 * Makes a vocabulary of the texts, and trains a small BERT on all ranks to find words that are hidden from it. Returns
 * the folder of the run with the model and its tokenizer, which transformers opens, too.
 */
export async function pretrainEncoder(
  texts: readonly LabelledText[],
  options: Options,
  context: RankContext,
): Promise<string> {
  const { rank, worldSize, runDirectory } = context;
  const { seed, layers, channels, heads, 'max-length': maxLength } = options;
  const tokenizer = trainWordPieces(
    texts.map(({ text }) => text),
    { vocabularySize: options['vocabulary-size'] },
  );
  const dataset = new TokenDataset(texts, tokenizer, maxLength).withoutLabels();
  const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank, seed });
  const generator = new Generator(seed + rank);
  const loader = new data.DataLoader<TokenRows>({
    dataset,
    batchSize: options['batch-size'],
    sampler,
    dropLast: true,
    collate: maskedLanguageModelCollate({ tokenizer, generator, length: maxLength }),
  });

  const model = new BertForMaskedLM({
    vocabSize: tokenizer.vocabularySize,
    hiddenSize: channels,
    numHiddenLayers: layers,
    numAttentionHeads: heads,
    intermediateSize: 4 * channels,
    maxPositionEmbeddings: maxLength,
  });
  const parallel = await dist.parallelize(model, dist.ddp());
  const [lr, steps] = [options['pretraining-learning-rate'], options['pretraining-steps']];
  const optimizer = new optim.AdamW(model.parameters(), {
    lr,
    weightDecay: options['weight-decay'],
  });
  let step = 0;
  while (step < steps) {
    for await (const batch of loader) {
      for (const group of optimizer.paramGroups) {
        group.lr = lr * learningRateAt(step, steps, options['warmup-steps']);
      }
      const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
      const loss = parallel.forward(inputIds, call);
      optimizer.zeroGrad();
      loss.backward();
      optim.clipGradNorm(model.parameters(), options['max-norm']);
      await optimizer.step();
      step++;
      const isShown = step % 20 === 0 || step === steps;
      if (rank === 0 && isShown) {
        console.log(`pre-training ${step}/${steps}: loss ${(await loss.item()).toFixed(3)}`);
      }
      if (step === steps) break;
    }
  }

  const folder = join(runDirectory, 'encoder');
  await saveTokenizer(tokenizer, folder);
  // All ranks wait here until the folder is whole.
  await savePretrained(model, folder);
  return folder;
}
