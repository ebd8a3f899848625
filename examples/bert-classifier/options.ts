import { z } from 'zod';
import { checkHeads, count, number, parseOptions } from '../parse-options.ts';

const countOrNone = number.int({ error: 'expected a whole number' }).nonnegative();

const schema = z
  .strictObject({
    /** A folder of a BERT or RoBERTa, or `none`: an encoder that is pre-trained on the texts. */
    model: z.string().default('none'),
    /** `mails`, or a file of lines {"text": "…", "label": "…"}. */
    data: z.string().default('mails'),
    'max-length': count.default(128),
    'vocabulary-size': count.default(4096),
    layers: count.default(2),
    heads: count.default(4),
    channels: count.default(128),
    'pretraining-steps': count.default(200),
    'pretraining-learning-rate': number.positive().default(1e-3),
    epochs: count.default(3),
    /** Ends training after so many updates. 0: with the epochs. */
    'max-steps': countOrNone.default(0),
    'batch-size': count.default(16),
    'learning-rate': number.positive().default(5e-4),
    'weight-decay': number.nonnegative().default(0.01),
    'warmup-steps': countOrNone.default(30),
    'max-norm': number.positive().default(1),
    /** The epochs without a better accuracy after which training ends. */
    patience: count.default(2),
    seed: number.int().nonnegative().default(1),
  })
  .superRefine(checkHeads);

export type Options = z.infer<typeof schema>;

/** Reads the command line of a rank. Throws a ConfigError that names each option that is wrong. */
export function readOptions(argv: readonly string[]): Options {
  return parseOptions(schema, argv);
}
