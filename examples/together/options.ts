import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { z } from 'zod';
import { count, number, parseOptions } from '../parse-options.ts';

/** Text that exists after `npm ci`. */
const installedDeclarations = ['node_modules/typescript/**/*.d.ts'];

const schema = z.strictObject({
  /** The address that `shardwise coordinate` prints. */
  url: z.string().default('ws://127.0.0.1:8970'),
  'token-file': z.string(),
  /** The name by which others see this member. */
  name: z.string().default(hostname()),
  data: z.array(z.string()).default(installedDeclarations),
  steps: count.default(1000),
  /** The seconds between two rounds. */
  every: number.positive().default(10),
  'batch-size': count.default(8),
  'context-length': count.default(64),
  'learning-rate': number.positive().default(1e-3),
});

export interface Options extends Omit<z.infer<typeof schema>, 'token-file'> {
  readonly token: string;
}

/** Reads the command line, and the token. Throws a ConfigError that names each option that is wrong. */
export async function readOptions(argv: readonly string[]): Promise<Options> {
  const { 'token-file': file, ...options } = parseOptions(schema, argv, ['data']);
  return { ...options, token: (await readFile(file, 'utf8')).trim() };
}
