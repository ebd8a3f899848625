import { writeFile } from 'node:fs/promises';
import { paintOf } from '../terminal/paint.ts';
import { Screen } from '../terminal/screen.ts';
import { displayPath } from '../text/display-path.ts';
import { type Finding, worstLevel } from './host/finding.ts';
import { systemReadings } from './host/readings.ts';
import { runProbes } from './host/run-probes.ts';
import { findingLines } from './finding-lines.ts';
import { hideSecrets } from './hide-secrets.ts';
import { judgeLinks } from './links/judge-links.ts';
import { linkLines } from './links/link-lines.ts';
import { linksPage } from './links/links-page.ts';
import { type LinksOutcome, runLinks } from './links/run-links.ts';

export interface DoctorOptions {
  readonly json: boolean;
  /** The file for the picture of the links. Undefined: there is none. */
  readonly page: string | undefined;
  /** The file of the command. */
  readonly main: string;
  /** The options of `shardwise run` for ranks that measure their links. Empty: only this host is examined. */
  readonly runOptions: readonly string[];
}

/**
 * Runs `shardwise doctor`. What is broken is a finding, so it returns whatever it finds. Throws the error of the file
 * system if the picture can't be written.
 */
export async function doctorCommand({
  json,
  page,
  main,
  runOptions,
}: DoctorOptions): Promise<void> {
  const readings = systemReadings();
  const host = await runProbes(readings);
  const outcome = runOptions.length === 0 ? undefined : await runLinks(main, runOptions);
  const report = outcome?.kind === 'measured' ? outcome.report : undefined;
  const findings = hideSecrets(
    [...host, ...(outcome === undefined ? [] : findingsOf(outcome))],
    process.env,
  );
  if (page !== undefined && report !== undefined)
    await writeFile(page, linksPage(report, findings));
  if (json) {
    const level = worstLevel(findings);
    const value = { level, host: readings.host, findings, ...(report && { links: report }) };
    process.stdout.write(`${JSON.stringify(value, undefined, 2)}\n`);
    return;
  }
  const { columns } = new Screen(process.stdout);
  const paint = paintOf(process.stdout);
  const lines = [
    ...(report === undefined ? [] : linkLines(report, columns)),
    ...findingLines(findings, columns, paint),
    ...(page !== undefined && report !== undefined ? [`Picture: ${displayPath(page)}`] : []),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

function findingsOf(outcome: LinksOutcome): readonly Finding[] {
  const name = 'links';
  switch (outcome.kind) {
    case 'measured':
      return judgeLinks(outcome.report);
    case 'elsewhere':
      return [{ name, level: 'green', found: 'measured; the first host shows them' }];
    case 'failed':
      return [
        {
          name,
          level: 'red',
          found: `the ranks that measure them ended with code ${outcome.exitCode}; the lines above say why`,
          todo: 'Begin with fewer ranks and hosts: shardwise doctor --nproc 2',
        },
      ];
    default:
      return outcome satisfies never;
  }
}
