import { parseArgs } from 'node:util';
import { ConfigError } from 'shardwise';
import { z } from 'zod';

/**
 * The command line of an example's rank, as its schema has it; options in `lists` may come several
 * times. Throws ConfigError that names each option that is wrong.
 */
export function parseOptions<Schema extends z.ZodObject>(
  schema: Schema,
  argv: readonly string[],
  lists: readonly string[] = [],
): z.infer<Schema> {
  const names = Object.keys(schema.shape);
  const options = Object.fromEntries(
    names.map((name) => [name, { type: 'string' as const, multiple: lists.includes(name) }]),
  );
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
