import { z } from 'zod';
import { parseOptions } from '../parse-options.ts';

const count = z.coerce.number({ error: 'expected a number' }).int().positive();

const schema = z.strictObject({
  optimizer: z.enum(['ZeroRedundancyOptimizer', 'Adam']).default('ZeroRedundancyOptimizer'),
  layers: count.default(20),
  width: count.default(2000),
  'batch-size': count.default(20),
});

export type Options = z.infer<typeof schema>;

/** Reads the command line of a rank. Throws a ConfigError that says what is wrong with it. */
export function readOptions(argv: readonly string[]): Options {
  return parseOptions(schema, argv);
}
