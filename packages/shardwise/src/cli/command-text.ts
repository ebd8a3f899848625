import type { RunCommandOptions } from './run-options.ts';

/** The command line that starts such a run, as one types it. */
export function commandText(options: RunCommandOptions): string {
  const { worldSize, runDirectory, resumeDirectory, report, plain, script, args } = options;
  const words = [
    'shardwise',
    'run',
    ...(worldSize === 1 ? [] : ['--nproc', String(worldSize)]),
    ...(runDirectory === undefined ? [] : ['--run-dir', runDirectory]),
    ...(resumeDirectory === undefined ? [] : ['--resume', resumeDirectory]),
    ...(report ? [] : ['--no-report']),
    ...(plain ? ['--plain'] : []),
    script,
    ...args,
  ];
  return words.map(quote).join(' ');
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
