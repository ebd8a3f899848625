import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A script of this package that ranks run, one of which writes what they found. */
export interface RanksScript {
  /** The file of the command. */
  readonly main: string;
  /** The options of `shardwise run`. */
  readonly options: readonly string[];
  readonly script: string;
  /** The file of the run's directory that one of the ranks writes. */
  readonly file: string;
}

/** What came of starting the ranks. */
export type ScriptOutcome =
  | { readonly kind: 'written'; readonly text: string }
  /** Another host has the file. */
  | { readonly kind: 'elsewhere' }
  | { readonly kind: 'failed'; readonly exitCode: number };

/**
 * Starts ranks as `shardwise run` does, and returns what they have written. What the launcher has to say, such as whom it
 * waits for, goes to standard error.
 */
export async function runScript({
  main,
  options,
  script,
  file,
}: RanksScript): Promise<ScriptOutcome> {
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-ranks-'));
  try {
    const own = ['--no-report', '--plain', '--run-dir', directory];
    const child = spawn(
      process.execPath,
      [...process.execArgv, main, 'run', ...options, ...own, script],
      { stdio: ['inherit', 'ignore', 'inherit'] },
    );
    const [code] = await once(child, 'exit');
    if (code !== 0) return { kind: 'failed', exitCode: Number(code ?? 1) };
    const text = await readFile(join(directory, file), 'utf8').catch(() => undefined);
    return text === undefined ? { kind: 'elsewhere' } : { kind: 'written', text };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
