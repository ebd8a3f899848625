/**
 * Teaches a small language model to add numbers of three digits by rewards alone (GRPO), on as many ranks as it is started
 * with. It is pre-trained on some solved problems, so that it is right now and then. Its own answers are made by the
 * weights and the kernels that are trained:
 *
 *   shardwise run --nproc 2 examples/grpo/train.ts
 *   shardwise run --nproc 2 examples/grpo/train.ts --num-iterations 2 --beta 0.04
 */
import { cpu } from '@shardwise/backend-cpu';
import { GPT2LMHeadModel } from '@shardwise/models';
import { Engine, generateRolloutCompletions, type RolloutCompletion } from '@shardwise/serve';
import { ConfigError, dist, Generator, init, manualSeed, noGrad, optim, tensor } from 'shardwise';
import {
  drawProblems,
  END,
  formatAnswer,
  lengthsOf,
  type Problem,
  reward,
  VOCABULARY,
} from './addition.ts';
import { groupAdvantages, grpoLoss, selectiveLogSoftmax } from './grpo-loss.ts';
import { meanOfRanks } from './mean-of-ranks.ts';
import { readOptions } from './options.ts';
import { padAnswers, padRows } from './padded-rows.ts';
import { pretrain } from './pretrain.ts';

const options = readOptions(process.argv.slice(2));
const lengths = lengthsOf(options.digits);
const { promptLength, answerLength } = lengths;
const { 'num-generations': numGenerations, 'loss-type': lossType } = options;
// Log-probabilities of generated tokens then have the bits of those of the training.
const context = await init({ device: await cpu({ batchInvariant: true }) });
const { rank, worldSize } = context;
if (context.resumeDirectory !== undefined) {
  throw new ConfigError({
    asked: 'to continue a run (--resume)',
    found: 'a script that saves no checkpoints',
    todo: 'Start anew without --resume',
  });
}
manualSeed(options.seed);

const model = newModel();
const parallel = await dist.parallelize(model, dist.ddp());
await pretrain(parallel, options, context);
const reference = options.beta > 0 ? newModel() : undefined;
await reference?.loadStateDict(await model.stateDict());

// All completions of this rank are made at once. Each has a block of its own, and each prompt has one.
const maxSequences = Math.ceil(options['problems-per-step'] / worldSize) * numGenerations;
const engine = new Engine(parallel, null, {
  maxSequences,
  blockSize: promptLength + answerLength,
  cacheTokens: 2 * maxSequences * (promptLength + answerLength),
});
const optimizer = new optim.AdamW(model.parameters(), {
  lr: options['learning-rate'],
  weightDecay: 0,
});
const drawn = new Generator(options.seed + 1);
let step = 0;
let stopped = false;
while (step < options.steps && !stopped) {
  const problems = drawProblems(drawn, options['problems-per-step'], options.digits);
  const completions = await generateRolloutCompletions(
    engine,
    problems.map(({ prompt }) => prompt),
    // Without a temperature of its own, so that what is drawn has the probabilities that are trained.
    { numGenerations, seed: step, maxNewTokens: answerLength, stopTokenIds: [END] },
  );
  const rewards = completions.map(({ promptIndex, tokens }) =>
    reward(problemOf(problems, promptIndex), tokens),
  );
  const mean = await meanOfRanks(rewards);
  if (rank === 0 && step === 0) printSome(problems, completions);
  const batch = await batchOf(completions, rewards);
  for (let iteration = 0; iteration < options['num-iterations'] && !stopped; iteration++) {
    const logits = parallel.forward(batch.inputIds, { logitsToKeep: answerLength });
    const logProbabilities = selectiveLogSoftmax(logits, batch.answers);
    const { loss, ratio } = grpoLoss({ ...batch, logProbabilities }, { ...options, lossType });
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(model.parameters(), options['max-norm']);
    const [least, most] = [ratio.min(), ratio.max()];
    await optimizer.step();
    step++;
    const ratios = { least: await least.item(), most: await most.item() };
    context.report({
      step,
      totalSteps: options.steps,
      loss: await loss.item(),
      samples: completions.length,
      metrics: { reward: mean, 'ratio/least': ratios.least, 'ratio/most': ratios.most },
    });
    if (rank === 0 && (step % options['log-every'] === 0 || step === 1)) {
      const range = `${ratios.least} to ${ratios.most}`;
      console.log(
        `step ${step}: reward ${mean.toFixed(3)}, update ${iteration + 1} of its rollout, ratios ${range}`,
      );
    }
    stopped = (await context.shouldStop(step)) || step === options.steps;
  }
}
await engine.dispose();
await context.close();

function newModel(): GPT2LMHeadModel {
  return new GPT2LMHeadModel({
    vocabSize: VOCABULARY,
    nPositions: promptLength + answerLength,
    nEmbd: options.channels,
    nLayer: options.layers,
    nHead: options.heads,
    // Dropout would make the probabilities of training other ones than those of generation.
    residPdrop: 0,
    embdPdrop: 0,
    attnPdrop: 0,
  });
}

/** Is a collective. */
async function batchOf(completions: readonly RolloutCompletion[], rewards: readonly number[]) {
  const rows = padRows(
    completions.map(({ promptTokens, tokens }) => ({ prompt: promptTokens, answer: tokens })),
    lengths,
  );
  const { inputIds, answers } = rows;
  const tokenCount = completions.reduce((sum, { tokens }) => sum + tokens.length, 0);
  return {
    ...rows,
    meanTokens: tensor(await meanOfRanks([tokenCount])),
    advantages: tensor(groupAdvantages(rewards, numGenerations)),
    oldLogProbabilities: padAnswers(
      completions.map((each) => each.logProbabilities),
      answerLength,
    ),
    ...(reference === undefined
      ? {}
      : {
          refLogProbabilities: noGrad(() =>
            selectiveLogSoftmax(
              reference.forward(inputIds, { logitsToKeep: answerLength }),
              answers,
            ),
          ),
        }),
  };
}

function problemOf(problems: readonly Problem[], index: number): Problem {
  const problem = problems[index];
  if (problem === undefined) throw new RangeError(`no problem ${index}`);
  return problem;
}

/** Prints what the model answers to the first problem. */
function printSome(problems: readonly Problem[], completions: readonly RolloutCompletion[]): void {
  const texts = completions
    .slice(0, 4)
    .map(({ promptIndex, tokens }) => formatAnswer(problemOf(problems, promptIndex), tokens));
  console.log(`answers of the pre-trained model, such as ${texts.join(', ')}`);
}
