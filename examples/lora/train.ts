/**
 * Teaches a language model to follow instructions by adapters of low rank (LoRA), on as many ranks as it is started
 * with. FSDP divides the frozen weights over the ranks. By default the model is a small Llama that it pre-trains itself:
 *
 *   shardwise run --nproc 2 examples/lora/train.ts
 *   shardwise run --nproc 2 examples/lora/train.ts --model SmolLM2-135M --data instructions.jsonl --bits 4
 *
 * The adapter is in `adapter` of the run's folder, in the format of PEFT.
 */
import { join } from 'node:path';
import { readTextFiles } from '@shardwise/core/node';
import { conversationSample, padCollate, tensorsOf, type TokenRows } from '@shardwise/data';
import { loadTokenizer } from '@shardwise/data/node';
import { generate, type LoraOptions, type ParallelPretrained } from '@shardwise/models';
import { fromPretrained, saveAdapter } from '@shardwise/models/node';
import { ConfigError, data, DataError, dist, init, manualSeed, optim } from 'shardwise';
import { type Instruction, readInstructions, tasksAboutWords } from './instructions.ts';
import { readOptions } from './options.ts';
import { pretrainLlama } from './pretrain.ts';

const options = readOptions(process.argv.slice(2));
const context = await init();
const { rank, worldSize } = context;
if (context.resumeDirectory !== undefined) {
  throw new ConfigError({
    asked: 'to continue a run (--resume)',
    found: 'a script that saves an adapter, and not the states of its optimizer',
    todo: 'Start anew without --resume',
  });
}
manualSeed(options.seed);

const instructions =
  options.data === 'words'
    ? tasksAboutWords(new TextDecoder().decode(await readTextFiles(options.text)))
    : await readInstructions(options.data);
const folder = options.model === 'none' ? await pretrainLlama(options, context) : options.model;

const tokenizer = await loadTokenizer(folder);
const { padTokenId = tokenizer.eosTokenId } = tokenizer;
if (padTokenId === undefined) {
  throw new ConfigError({
    asked: `to pad texts with the tokenizer of ${folder}`,
    found: 'no padding token, and none that ends a text',
    todo: 'Name one in tokenizer_config.json: "pad_token"',
  });
}

const targetModules: LoraOptions['targetModules'] =
  options.target.length === 0 ? 'all-linear' : options.target;
const lora: LoraOptions = {
  rank: options['adapter-rank'],
  alpha: options['adapter-alpha'],
  dropout: options.dropout,
  targetModules,
};
const strategy = dist.fsdp({ mixedPrecision: { computeDtype: 'bf16' } });
const parallel = await parallelModel();
const model = parallel.module;
const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
const optimizer = new optim.AdamW(trained, { lr: options['learning-rate'], weightDecay: 0 });

const length = options['max-length'];
const samples = instructions.train.map((each) => sampleOf(each));
const fitting = samples.filter(({ inputIds }) => (inputIds?.data.length ?? 0) <= length);
if (fitting.length < worldSize * options['batch-size']) {
  throw new DataError({
    asked: `batches of ${options['batch-size']} instructions for ${worldSize} ranks`,
    found: `${fitting.length} instructions of at most ${length} tokens among ${samples.length}`,
    todo: 'Give more instructions, a smaller --batch-size, or a larger --max-length',
  });
}
const dataset: data.Dataset<TokenRows> = {
  length: fitting.length,
  get: (index) => fitting[index] ?? {},
};
const sampler = new data.DistributedSampler({
  dataset,
  numReplicas: worldSize,
  rank,
  seed: options.seed,
});
const loader = new data.DataLoader<TokenRows>({
  dataset,
  batchSize: options['batch-size'],
  sampler,
  dropLast: true,
  collate: padCollate({ padTokenId, length }),
});
if (rank === 0) {
  const [own, all] = [trained, model.parameters()].map((parameters) =>
    parameters.reduce((sum, { numel }) => sum + numel, 0),
  );
  const left = samples.length - fitting.length;
  console.log(`${own} of ${all} parameters train, on ${fitting.length} instructions`);
  if (left > 0)
    console.log(`${left} instructions have more than ${length} tokens and are left out`);
}

await printAnswers('before');
const schedule = optim.warmupSchedule(
  Math.min(options['warmup-steps'], options.steps - 1),
  optim.cosineSchedule(options.steps, 0.1),
);
let step = 0;
let stopped = false;
while (step < options.steps && !stopped) {
  for await (const batch of loader) {
    for (const group of optimizer.paramGroups) {
      group.lr = options['learning-rate'] * schedule(step + 1);
    }
    optimizer.zeroGrad();
    const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
    const loss = parallel.forward(inputIds, call);
    loss.backward();
    optim.clipGradNorm(trained, options['max-norm']);
    await optimizer.step();
    step++;
    context.report({
      step,
      totalSteps: options.steps,
      loss: await loss.item(),
      tokens: options['batch-size'] * length,
      learningRate: optimizer.paramGroups[0]?.lr ?? 0,
      memory: dist.memory({ model, optimizer }),
    });
    stopped = await context.shouldStop(step);
    if (step === options.steps || stopped) break;
  }
}
await printAnswers('after');
const adapter = join(context.runDirectory, 'adapter');
await saveAdapter(model, adapter, { baseModelNameOrPath: folder });
if (rank === 0) console.log(`the adapter, as PEFT opens it: ${adapter}`);
await context.close();

/** Loads the model with adapters. No rank ever has more than its part of the frozen weights, in any number of bits. */
async function parallelModel(): Promise<ParallelPretrained> {
  const { bits } = options;
  if (bits === '4' || bits === '8') {
    return fromPretrained(folder, { quantize: { bits: bits === '4' ? 4 : 8 }, lora, strategy });
  }
  return fromPretrained(folder, { dtype: bits === '16' ? 'bf16' : 'f32', lora, strategy });
}

function sampleOf({ instruction, output }: Instruction): TokenRows {
  return conversationSample(tokenizer, [
    { role: 'user', content: instruction },
    { role: 'assistant', content: output },
  ]);
}

/** Prints what the model answers to some instructions that training does not see. All ranks take part. */
async function printAnswers(when: string): Promise<void> {
  const some = instructions.heldOut.slice(0, 6);
  if (some.length === 0) return;
  const prompts = some.map(({ instruction }) => {
    const prompt = tokenizer.applyChatTemplate([{ role: 'user', content: instruction }], {
      addGenerationPrompt: true,
    });
    return tokenizer.encode(prompt, { addSpecialTokens: false }).inputIds;
  });
  const rows = await generate(parallel, prompts, { maxNewTokens: options['sample-tokens'] });
  if (rank !== 0) return;
  console.log(`answers ${when} training:`);
  for (const [index, row] of rows.entries()) {
    const answer = tokenizer.decode(row.slice(prompts[index]?.length), { skipSpecialTokens: true });
    console.log(`  ${some[index]?.instruction} -> ${JSON.stringify(answer)}`);
  }
}
