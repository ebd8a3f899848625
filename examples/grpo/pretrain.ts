import type { GPT2LMHeadModel, ParallelPretrainedModel } from '@shardwise/models';
import { Generator, optim, type RankContext } from 'shardwise';
import { drawProblems, lengthsOf } from './addition.ts';
import { selectiveLogSoftmax } from './grpo-loss.ts';
import { meanOfRanks } from './mean-of-ranks.ts';
import type { Options } from './options.ts';
import { padRows } from './padded-rows.ts';

/** The steps in which the learning rate rises. */
const WARMUP_STEPS = 30;
/** After so many steps the ranks look at the loss. */
const LOOK_EVERY = 5;

/** Trains the model on solved problems until it knows what an answer looks like, and is right now and then. */
export async function pretrain(
  parallel: ParallelPretrainedModel & { readonly module: GPT2LMHeadModel },
  options: Options,
  { rank, worldSize }: Pick<RankContext, 'rank' | 'worldSize'>,
): Promise<void> {
  const [lr, steps] = [options['pretraining-learning-rate'], options['pretraining-steps']];
  const lengths = lengthsOf(options.digits);
  const batchSize = options['pretraining-batch-size'];
  const optimizer = new optim.AdamW(parallel.module.parameters(), { lr });
  // All ranks draw the problems of all ranks, so that what is learned does not depend on their number.
  const problems = new Generator(options.seed);
  for (let step = 1; step <= steps; step++) {
    for (const group of optimizer.paramGroups) group.lr = lr * Math.min(1, step / WARMUP_STEPS);
    const all = drawProblems(problems, batchSize * worldSize, options.digits);
    const { inputIds, answers, mask } = padRows(
      all.slice(rank * batchSize, (rank + 1) * batchSize),
      lengths,
    );
    const logits = parallel.forward(inputIds, { logitsToKeep: lengths.answerLength });
    const loss = selectiveLogSoftmax(logits, answers).mul(mask).sum().div(mask.sum()).neg();
    optimizer.zeroGrad();
    loss.backward();
    optim.clipGradNorm(parallel.module.parameters(), options['max-norm']);
    await optimizer.step();
    if (step % LOOK_EVERY > 0 && step < steps) continue;
    const mean = await meanOfRanks([await loss.item()]);
    const isOver = mean <= options['pretraining-loss'] || step === steps;
    if (rank === 0 && (step % 50 === 0 || isOver)) {
      console.log(`pre-training, step ${step}: loss ${mean.toFixed(3)}`);
    }
    if (isOver) return;
  }
}
