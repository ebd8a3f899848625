import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type LinkReport, parseLinkReport } from './link-report.ts';
import { LINKS_FILE } from './links-file.ts';

/** What came of starting the ranks. */
export type LinksOutcome =
  | { readonly kind: 'measured'; readonly report: LinkReport }
  /** Another host has the report. */
  | { readonly kind: 'elsewhere' }
  | { readonly kind: 'failed'; readonly exitCode: number };

/**
 * Starts ranks as `shardwise run` does with these options, and has them measure their links. `main` is the command's
 * file. What the launcher has to say, such as
 * whom it waits for, goes to standard error.
 */
export async function runLinks(main: string, options: readonly string[]): Promise<LinksOutcome> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const script = fileURLToPath(new URL(`./links-process.${extension}`, import.meta.url));
  const directory = await mkdtemp(join(tmpdir(), 'shardwise-doctor-'));
  try {
    const own = ['--no-report', '--plain', '--run-dir', directory];
    const child = spawn(
      process.execPath,
      [...process.execArgv, main, 'run', ...options, ...own, script],
      { stdio: ['inherit', 'ignore', 'inherit'] },
    );
    const [code] = await once(child, 'exit');
    if (code !== 0) return { kind: 'failed', exitCode: Number(code ?? 1) };
    const json = await readFile(join(directory, LINKS_FILE), 'utf8').catch(() => undefined);
    if (json === undefined) return { kind: 'elsewhere' };
    return { kind: 'measured', report: parseLinkReport(json) };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
