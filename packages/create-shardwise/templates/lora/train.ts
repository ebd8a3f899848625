// Teaches a language model to follow instructions, by adapters of low rank (LoRA). Every rank runs this file.
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import {
  conversationSample,
  padCollate,
  readJsonLines,
  tensorsOf,
  textColumns,
  type TokenRows,
} from '@shardwise/data';
import { fileBytes, loadTokenizer } from '@shardwise/data/node';
import { generate } from '@shardwise/models';
import { fromPretrained, saveAdapter } from '@shardwise/models/node';
import { data, dist, init, manualSeed, optim } from 'shardwise';
import { pretrain } from './pretrain.ts';

const { values } = parseArgs({
  options: {
    /** A folder of a language model, such as SmolLM2-135M-Instruct. Default: a small Llama that is trained first. */
    model: { type: 'string' },
    /** A file of lines such as {"instruction": "…", "output": "…"}. */
    data: { type: 'string', default: 'data/instructions.jsonl' },
    steps: { type: 'string', default: '200' },
    'learning-rate': { type: 'string', default: '1e-2' },
  },
});
const [steps, lr] = [Number(values.steps), Number(values['learning-rate'])];
if (!(steps >= 1)) throw new RangeError(`--steps ${values.steps}: give a number from 1`);
if (!(lr > 0)) throw new RangeError(`--learning-rate ${values['learning-rate']}: give one above 0`);
const batchSize = 8;

const context = await init();
const { rank, worldSize } = context;
if (context.resumeDirectory !== undefined) {
  throw new Error(
    'This script does not --resume: it saves an adapter, without the states of AdamW',
  );
}
manualSeed(1); // Every rank begins with the same weights.

const rows = await textColumns(
  await readJsonLines(await fileBytes(values.data)),
  'instruction',
  'output',
);
const folder = values.model ?? (await pretrain(context));
const tokenizer = await loadTokenizer(folder);
const padTokenId = tokenizer.padTokenId ?? tokenizer.eosTokenId;
if (padTokenId === undefined) {
  throw new Error(`The tokenizer of ${folder} has no pad_token: name one in tokenizer_config.json`);
}

const parallel = await fromPretrained(folder, {
  lora: { targetModules: 'all-linear', rank: 16, alpha: 32 }, // freezes all other weights
  strategy: dist.fsdp(), // Each rank reads and keeps a part of the weights.
});
const model = parallel.module;
const trained = model.parameters().filter(({ requiresGrad }) => requiresGrad);
const optimizer = new optim.AdamW(trained, { lr, weightDecay: 0 });
const schedule = new optim.LearningRateScheduler(optimizer, optim.cosineSchedule(steps, 0.1));

// Only the answers are learned. Every tenth instruction is kept to see what the model makes of it.
const heldOut = rows.filter((_, index) => index % 10 === 9);
const samples = rows
  .filter((_, index) => index % 10 !== 9)
  .map(({ instruction, output }) =>
    conversationSample(tokenizer, [
      { role: 'user', content: instruction },
      { role: 'assistant', content: output },
    ]),
  );
const dataset = { length: samples.length, get: (index: number) => samples[index] ?? {} };
const sampler = new data.DistributedSampler({ dataset, numReplicas: worldSize, rank });
const collate = padCollate({ padTokenId, padToMultipleOf: 16 });
const loader = new data.DataLoader<TokenRows>({ dataset, batchSize, sampler, collate });

await printAnswers('before');
let step = 0;
let stopping = false;
while (step < steps && !stopping) {
  for await (const batch of loader) {
    const { inputIds, ...call } = tensorsOf(batch, 'inputIds', 'attentionMask', 'labels');
    const loss = parallel.forward(inputIds, call);
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(trained, 1);
    await optimizer.step();
    schedule.step();
    step++;
    context.report({ step, totalSteps: steps, loss: await loss.item() });
    stopping = await context.shouldStop(step); // After Ctrl-C, all ranks stop after the same step.
    if (stopping || step === steps) break;
  }
}
await printAnswers('after');
const adapter = join(context.runDirectory, 'adapter');
await saveAdapter(model, adapter, { baseModelNameOrPath: folder });
if (rank === 0) console.log(`the adapter, as Python's peft opens it: ${adapter}`);
await context.close();

/** Prints what the model answers to instructions that it has not learned. All ranks take part. */
async function printAnswers(when: string): Promise<void> {
  const some = heldOut.slice(0, 4);
  if (some.length === 0) return;
  const prompts = some.map(({ instruction }) => {
    const message = { role: 'user', content: instruction };
    const prompt = tokenizer.applyChatTemplate([message], { addGenerationPrompt: true });
    return tokenizer.encode(prompt, { addSpecialTokens: false }).inputIds;
  });
  const answers = await generate(parallel, prompts, { maxNewTokens: 24 });
  if (rank !== 0) return;
  console.log(`answers ${when} training:`);
  for (const [index, row] of answers.entries()) {
    const answer = tokenizer.decode(row.slice(prompts[index]?.length), { skipSpecialTokens: true });
    console.log(`  ${some[index]?.instruction} -> ${JSON.stringify(answer)}`);
  }
}
