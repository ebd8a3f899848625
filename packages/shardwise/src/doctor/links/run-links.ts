import { fileURLToPath } from 'node:url';
import { runScript, type ScriptOutcome } from './run-script.ts';
import { type LinkReport, parseLinkReport } from './link-report.ts';
import { LINKS_FILE } from './links-file.ts';

/** What came of starting the ranks. */
export type LinksOutcome =
  | { readonly kind: 'measured'; readonly report: LinkReport }
  | Exclude<ScriptOutcome, { kind: 'written' }>;

/**
 * Starts ranks as `shardwise run` does with these options, and has them measure their links. `main` is the command's file.
 */
export async function runLinks(main: string, options: readonly string[]): Promise<LinksOutcome> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const script = fileURLToPath(new URL(`./links-process.${extension}`, import.meta.url));
  const outcome = await runScript({ main, options, script, file: LINKS_FILE });
  return outcome.kind === 'written'
    ? { kind: 'measured', report: parseLinkReport(outcome.text) }
    : outcome;
}
