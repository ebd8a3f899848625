import { join } from 'node:path';
import { readTextFiles } from '@shardwise/core/node';
import { byteTokenizer, tensorsOf, TokenDataset, type TokenRows } from '@shardwise/data';
import { saveTokenizer } from '@shardwise/data/node';
import { LlamaForCausalLM } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { data, dist, optim, type RankContext } from 'shardwise';

const TEXTS = ['shardwise', '@shardwise/core', '@shardwise/data', '@shardwise/models'].map(
  (name) => `node_modules/${name}/README.md`,
);
const STEPS = 200;

/**
 * Trains a small Llama on texts that are installed with the packages. Returns the folder with the model and its tokenizer.
 * Give train.ts a folder of a larger model, and you can delete this file.
 */
export async function pretrain({ rank, worldSize, runDirectory }: RankContext): Promise<string> {
  const tokenizer = byteTokenizer();
  const text = new TextDecoder().decode(await readTextFiles(TEXTS));
  const dataset = new TokenDataset(tokenizer.encode(text).inputIds, { contextLength: 64 });
  const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank });
  const loader = new data.DataLoader<TokenRows>({
    dataset,
    batchSize: 16,
    sampler,
    dropLast: true,
  });

  const model = new LlamaForCausalLM({
    vocabSize: tokenizer.vocabularySize,
    hiddenSize: 128,
    intermediateSize: 256,
    numHiddenLayers: 2,
    numAttentionHeads: 4,
    maxPositionEmbeddings: 256,
    tieWordEmbeddings: true,
    rest: {
      bos_token_id: tokenizer.bosTokenId,
      eos_token_id: tokenizer.eosTokenId,
      pad_token_id: tokenizer.padTokenId,
    },
  });
  const parallel = await dist.parallelize(model, dist.ddp());
  const optimizer = new optim.AdamW(model.parameters(), { lr: 3e-3 });
  for (let step = 0; step < STEPS;) {
    for await (const batch of loader) {
      const { inputIds, labels } = tensorsOf(batch, 'inputIds', 'labels');
      const loss = parallel.forward(inputIds, { labels });
      optimizer.zeroGrad();
      loss.backward();
      optim.clipGradNorm(model.parameters(), 1);
      await optimizer.step();
      step++;
      if (rank === 0 && step % 20 === 0) {
        console.log(`pre-training ${step}/${STEPS}: loss ${(await loss.item()).toFixed(2)}`);
      }
      if (step === STEPS) break;
    }
  }
  const folder = join(runDirectory, 'base');
  await saveTokenizer(tokenizer, folder);
  await savePretrained(model, folder); // All ranks wait here until the folder is complete.
  return folder;
}
