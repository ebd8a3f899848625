import { z } from 'zod';
import { checkHeads, count, number, parseOptions } from '../parse-options.ts';
import { lossTypes } from './grpo-loss.ts';

const schema = z
  .strictObject({
    /** Of each of the numbers that are added. */
    digits: count.max(8).default(3),
    layers: count.default(2),
    heads: count.default(4),
    channels: count.default(96),
    /** Pre-training ends at this loss of a token, with which a tenth to a fifth of the answers are right. */
    'pretraining-loss': number.min(0).default(0.42),
    /** It ends after so many steps at the latest. */
    'pretraining-steps': count.default(1000),
    'pretraining-batch-size': count.default(128),
    'pretraining-learning-rate': number.positive().default(2e-3),
    /** Updates by rewards. */
    steps: count.default(200),
    /** Problems of an update, on all ranks together. */
    'problems-per-step': count.default(32),
    /** Completions of each problem. */
    'num-generations': count.min(2).default(16),
    /** Updates with the completions of one rollout. */
    'num-iterations': count.default(1),
    /** How the losses of tokens are added up. */
    'loss-type': z.enum(lossTypes).default('grpo'),
    epsilon: number.positive().default(0.2),
    /** The weight of the divergence from the pre-trained model. */
    beta: number.min(0).default(0),
    'learning-rate': number.positive().default(2e-4),
    'max-norm': number.positive().default(1),
    'log-every': count.default(10),
    seed: number.int().nonnegative().default(1),
  })
  .superRefine(checkHeads);

export type Options = z.infer<typeof schema>;

/** Reads the command line of a rank. Throws a ConfigError that names each option that is wrong. */
export function readOptions(argv: readonly string[]): Options {
  return parseOptions(schema, argv);
}
