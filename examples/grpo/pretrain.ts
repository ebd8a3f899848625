import type { GPT2LMHeadModel, ParallelPretrainedModel } from '@shardwise/models';
import { Generator, optim, type RankContext } from 'shardwise';
import { drawProblems, lengthsOf } from './addition.ts';
import { selectiveLogSoftmax } from './grpo-loss.ts';
import type { Options } from './options.ts';
import { padRows } from './padded-rows.ts';

/** The part of the steps in which the learning rate rises, and how far it falls in the others. */
const [WARMUP, FLOOR] = [0.1, 0.1];

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
  const warmup = Math.min(Math.ceil(WARMUP * steps), steps - 1);
  const schedule = optim.warmupSchedule(warmup, optim.cosineSchedule(steps - warmup, FLOOR));
  // All ranks draw the problems of all ranks, so that what is learned does not depend on their number.
  const problems = new Generator(options.seed);
  for (let step = 1; step <= steps; step++) {
    for (const group of optimizer.paramGroups) group.lr = lr * schedule(step);
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
    if (rank === 0 && (step % 100 === 0 || step === steps)) {
      console.log(`pre-training ${step}/${steps}: loss ${(await loss.item()).toFixed(3)}`);
    }
  }
}
