import { join } from 'node:path';
import { readTextFiles } from '@shardwise/core/node';
import {
  byteTokenizer,
  maskedLanguageModelCollate,
  tensorsOf,
  type TokenRows,
} from '@shardwise/data';
import { saveTokenizer } from '@shardwise/data/node';
import { RobertaForMaskedLM } from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import {
  checkpoints,
  data,
  dist,
  Generator,
  init,
  manualSeed,
  optim,
  randomState,
  setRandomState,
} from 'shardwise';
import { ByteStretches } from './byte-stretches.ts';
import { readOptions } from './options.ts';
import { readProgress } from './progress.ts';

/** Trains a RoBERTa (Liu et al. 2019) to find bytes that are hidden from it, by a strategy, as the command line says. */
export async function pretrain(strategy: dist.Strategy): Promise<void> {
  const options = readOptions(process.argv.slice(2));
  const context = await init();
  const { rank, worldSize } = context;
  const { channels, 'max-length': maxLength, 'batch-size': batchSize, seed, steps } = options;

  const tokenizer = byteTokenizer();
  const dataset = new ByteStretches(await readTextFiles(options.data), maxLength);
  const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank, seed });
  const masks = new Generator(seed + rank);
  const collate = maskedLanguageModelCollate({
    tokenizer,
    generator: masks,
    probability: options['mask-probability'],
  });
  const loader = new data.DataLoader<TokenRows>({
    dataset,
    batchSize,
    sampler,
    dropLast: true,
    collate,
  });

  manualSeed(seed);
  const model = new RobertaForMaskedLM({
    vocabSize: tokenizer.vocabularySize,
    hiddenSize: channels,
    numHiddenLayers: options.layers,
    numAttentionHeads: options.heads,
    intermediateSize: 4 * channels,
    // Places are counted from the token of padding.
    maxPositionEmbeddings: maxLength + 2,
    typeVocabSize: 1,
    layerNormEps: 1e-5,
  });
  const parallel = await dist.parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: options['learning-rate'] });
  const schedule = optim.warmupSchedule(
    Math.min(options['warmup-steps'], steps - 1),
    optim.linearSchedule(steps),
  );

  let step = 0;
  if (context.resumeDirectory !== undefined) {
    const checkpoint = await checkpoints.load(context.resumeDirectory);
    const progress = readProgress(checkpoint, rank);
    await checkpoints.loadModel(checkpoint, model);
    await checkpoints.loadOptimizer(checkpoint, model, optimizer);
    loader.load(progress.loader);
    masks.setState(progress.masks);
    setRandomState(progress.random);
    step = checkpoint.step;
  }
  if (rank === 0) {
    const count = model.parameters().reduce((sum, { numel }) => sum + numel, 0);
    console.log(
      `RoBERTa of ${count} parameters by ${strategy.name}, ${worldSize} ranks, from step ${step}`,
    );
    console.log(dist.explain(parallel.plan).split('\n').at(-1));
  }

  let stopped = false;
  while (step < steps && !stopped) {
    for await (const batch of loader) {
      for (const group of optimizer.paramGroups) {
        group.lr = options['learning-rate'] * schedule(step + 1);
      }
      optimizer.zeroGrad();
      const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
      const loss = parallel.forward(inputIds, call);
      loss.backward();
      await optimizer.step();
      step++;
      context.report({
        step,
        totalSteps: steps,
        loss: await loss.item(),
        tokens: batchSize * maxLength,
        learningRate: optimizer.paramGroups[0]?.lr ?? 0,
        memory: dist.memory({ model, optimizer }),
      });
      stopped = await context.shouldStop(step);
      const isLast = step === steps || stopped;
      if (isLast || step % options['checkpoint-every'] === 0) {
        await context.saveCheckpoint({
          step,
          model,
          optimizer,
          extra: { loader: loader.state() },
          rankExtra: { masks: masks.getState(), random: randomState() },
        });
      }
      if (isLast) break;
    }
  }

  const { parameterBytes, optimizerBytes } = dist.memory({ model, optimizer });
  const folder = join(context.runDirectory, 'model');
  await saveTokenizer(tokenizer, folder);
  await savePretrained(parallel, folder);
  if (rank === 0) {
    const megabytes = [parameterBytes, optimizerBytes].map((bytes) => (bytes / 1e6).toFixed(2));
    console.log(`rank 0 keeps ${megabytes.join(' MB of parameters and ')} MB of optimizer states`);
    console.log(`the model, as transformers opens it: ${folder}`);
  }
  await context.close();
}
