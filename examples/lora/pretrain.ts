import { join } from 'node:path';
import { readTextFiles } from '@shardwise/core/node';
import { byteTokenizer } from '@shardwise/data';
import { saveTokenizer } from '@shardwise/data/node';
import { LlamaForCausalLM } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { data, dist, fromArray, optim, type RankContext } from 'shardwise';
import type { Options } from './options.ts';

const LAYERS = 4;
const CHANNELS = 128;
/** The number of the token of the first byte. */
const FIRST_BYTE = 4;

/**
 * Trains a small Llama on text, on all ranks. Returns the folder of the run with the model and its tokenizer, which
 * transformers opens, too.
 */
export async function pretrainLlama(options: Options, context: RankContext): Promise<string> {
  const { rank, worldSize, runDirectory } = context;
  const { seed, 'batch-size': batchSize, 'max-length': contextLength } = options;
  const dataset = new data.TextDataset(await readTextFiles(options.text), { contextLength });
  const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank, seed });
  const loader = new data.DataLoader<data.TextSample>({
    dataset,
    batchSize,
    sampler,
    dropLast: true,
  });
  const model = new LlamaForCausalLM({
    vocabSize: FIRST_BYTE + 256,
    hiddenSize: CHANNELS,
    intermediateSize: 3 * CHANNELS,
    numHiddenLayers: LAYERS,
    numAttentionHeads: 4,
    numKeyValueHeads: 2,
    maxPositionEmbeddings: 4 * contextLength,
    tieWordEmbeddings: true,
    rest: { bos_token_id: 0, eos_token_id: 2, pad_token_id: 1 },
  });
  const parallel = await dist.parallelize(model, dist.ddp());
  const [lr, steps] = [options['pretraining-learning-rate'], options['pretraining-steps']];
  const optimizer = new optim.AdamW(model.parameters(), { lr });
  const schedule = optim.warmupSchedule(
    Math.min(options['warmup-steps'], steps - 1),
    optim.cosineSchedule(steps, 0.1),
  );
  let step = 0;
  while (step < steps) {
    for await (const { x } of loader) {
      for (const group of optimizer.paramGroups) group.lr = lr * schedule(step + 1);
      const inputIds = fromArray(x).add(FIRST_BYTE);
      const loss = parallel.forward(inputIds, { labels: inputIds });
      optimizer.zeroGrad();
      loss.backward();
      optim.clipGradNorm(model.parameters(), options['max-norm']);
      await optimizer.step();
      step++;
      if (rank === 0 && (step % 50 === 0 || step === steps)) {
        console.log(`pre-training ${step}/${steps}: loss ${(await loss.item()).toFixed(3)}`);
      }
      if (step === steps) break;
    }
  }
  const folder = join(runDirectory, 'base');
  await saveTokenizer(byteTokenizer(), folder);
  // All ranks wait here until the folder is whole.
  await savePretrained(model, folder);
  return folder;
}
