import { z } from 'zod';
import { checkHeads, count, number, parseOptions } from '../parse-options.ts';

const schema = z
  .strictObject({
    data: z.array(z.string()).default(['node_modules/typescript/**/*.d.ts']),
    steps: count.default(300),
    'batch-size': count.default(8),
    'max-length': count.min(3).default(128),
    'mask-probability': number.min(0).max(1).default(0.15),
    layers: count.default(4),
    heads: count.default(4),
    channels: count.default(128),
    'learning-rate': number.positive().default(1e-3),
    'warmup-steps': count.default(30),
    'checkpoint-every': count.default(150),
    seed: number.int().nonnegative().default(1),
  })
  .superRefine(checkHeads);

export type Options = z.infer<typeof schema>;

/** Reads the command line of a rank. Throws a ConfigError that names each option that is wrong. */
export function readOptions(argv: readonly string[]): Options {
  return parseOptions(schema, argv, ['data']);
}
