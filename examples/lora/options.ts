import { z } from 'zod';
import { count, number, parseOptions } from '../parse-options.ts';

const schema = z.strictObject({
  /** A folder of a language model with its tokenizer, or `none`: a small Llama that is pre-trained first. */
  model: z.string().default('none'),
  /** A file of lines {"instruction": "…", "output": "…"}, or `words`: short tasks about words. */
  data: z.string().default('words'),
  /** The text of the pre-training and of the tasks about words. Default: text that exists after `npm ci`. */
  text: z.array(z.string()).default(['node_modules/typescript/**/*.d.ts']),
  'max-length': count.default(96),
  /** The layers that get an adapter, as PEFT names them. Default: all linear layers. */
  target: z.array(z.string()).default([]),
  'adapter-rank': count.default(8),
  'adapter-alpha': count.default(16),
  dropout: number.min(0).max(1).default(0),
  /** The bits of the frozen weights. 4: NF4, and 8: integers, each with a scale for a block of weights (QLoRA). */
  bits: z.enum(['16', '8', '4', '32']).default('16'),
  steps: count.default(300),
  'batch-size': count.default(16),
  'learning-rate': number.positive().default(3e-3),
  'warmup-steps': count.default(20),
  'max-norm': number.positive().default(1),
  'pretraining-steps': count.default(300),
  'pretraining-learning-rate': number.positive().default(2e-3),
  'sample-tokens': count.default(24),
  seed: number.int().nonnegative().default(1),
});

export type Options = z.infer<typeof schema>;

/** Reads the command line of a rank. Throws a ConfigError that names each option that is wrong. */
export function readOptions(argv: readonly string[]): Options {
  return parseOptions(schema, argv, ['target', 'text']);
}
