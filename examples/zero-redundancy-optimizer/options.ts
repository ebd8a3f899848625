import { parseArgs } from 'node:util';
import { ConfigError } from 'shardwise';
import { z } from 'zod';

const count = z.coerce.number({ error: 'expected a number' }).int().positive();

const schema = z.strictObject({
  optimizer: z.enum(['ZeroRedundancyOptimizer', 'Adam']).default('ZeroRedundancyOptimizer'),
  layers: count.default(20),
  width: count.default(2000),
  'batch-size': count.default(20),
});

export type Options = z.infer<typeof schema>;

/** The command line of a rank. Throws ConfigError that says what is wrong with it. */
export function readOptions(argv: readonly string[]): Options {
  const names = Object.keys(schema.shape);
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]));
  try {
    return schema.parse(parseArgs({ args: [...argv], options, strict: true }).values);
  } catch (cause) {
    const found =
      cause instanceof z.ZodError
        ? cause.issues.map(({ path, message }) => `--${path.join('.')}: ${message}`).join('; ')
        : String(cause instanceof Error ? cause.message.split('. ')[0] : cause);
    throw new ConfigError(
      {
        asked: 'to read the options of the script',
        found,
        todo: `Use the options ${names.map((name) => `--${name}`).join(', ')}`,
      },
      { argv },
      { cause },
    );
  }
}
