import { parseArgs } from 'node:util';
import { ConfigError } from 'shardwise';
import { z } from 'zod';

export const number = z.coerce.number({ error: 'expected a number' });
/** A whole number above 0. */
export const count = number.int({ error: 'expected a whole number' }).positive();

/** Refuses heads that do not share out the channels evenly. */
export function checkHeads(
  { heads, channels }: { readonly heads: number; readonly channels: number },
  context: z.RefinementCtx,
): void {
  if (channels % heads === 0) return;
  const message = `${heads} heads do not divide ${channels} channels`;
  context.addIssue({ code: 'custom', path: ['heads'], message });
}

/**
 * Reads the command line of an example's rank by a schema. Options in `lists` may occur several times. `--help` prints
 * the options with their defaults, once, and ends the rank. Throws a ConfigError that names each option that is wrong.
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
  if (argv.includes('--help') || argv.includes('-h')) {
    if ((process.env['RANK'] ?? '0') === '0') console.log(helpText(schema));
    process.exit(0);
  }
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
        todo: found.startsWith('Unexpected argument')
          ? "Give each value after its option, and quote patterns such as '**/*.md', which the shell would expand"
          : `Use the options ${names.map((name) => `--${name}`).join(', ')}`,
      },
      { argv },
      { cause },
    );
  }
}

/** Returns a line for each option, with its values and its default. */
function helpText(schema: z.ZodObject): string {
  const { properties = {} } = z.toJSONSchema(schema, { io: 'input' });
  const rows = Object.entries(properties).map(([name, property]) => {
    const { enum: words, default: standard } = typeof property === 'object' ? property : {};
    const takes = words === undefined ? '' : ` ${words.join(' | ')}`;
    return [`--${name}`, `${takes} (default: ${[standard].flat().join(' ')})`.trim()] as const;
  });
  const width = Math.max(...rows.map(([name]) => name.length));
  return ['Options:', ...rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`)].join('\n');
}
