import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const TIMEOUT_MS = 10_000;

/** Runs `ip` or `tc` and returns what it prints. If it fails, rejects with its error output. */
export async function networkCommand(program: 'ip' | 'tc', words: string): Promise<string> {
  try {
    const { stdout } = await execute(program, words.split(' '), { timeout: TIMEOUT_MS });
    return stdout;
  } catch (error) {
    const said =
      error instanceof Error && 'stderr' in error && typeof error.stderr === 'string'
        ? error.stderr.trim()
        : '';
    const why = said === '' && error instanceof Error ? error.message : said;
    throw new Error(`${program} ${words}: ${why}`, { cause: error });
  }
}
