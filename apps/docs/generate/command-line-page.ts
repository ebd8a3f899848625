import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { repository } from './packages.ts';
import type { GeneratedPage } from './page.ts';

const COMMANDS = [
  [],
  ['run'],
  ['verify'],
  ['profile'],
  ['blame'],
  ['doctor'],
  ['top'],
  ['export'],
  ['estimate-memory'],
  ['config'],
  ['coordinate'],
] as const;

/** Makes the page with what each command prints for `--help`. */
export function commandLinePage(): GeneratedPage {
  const main = join(repository, 'packages/shardwise/src/cli/main.ts');
  const sections = COMMANDS.map((command) => {
    const help = execFileSync(
      process.execPath,
      ['--conditions=@shardwise/source', main, ...command, '--help'],
      { encoding: 'utf8', env: { ...process.env, NO_COLOR: '1', COLUMNS: '80' } },
    );
    const title = ['shardwise', ...command].join(' ');
    return `## ${title}\n\n\`\`\`text\n${help.trim()}\n\`\`\``;
  });
  return {
    path: 'reference/generated/command-line.md',
    title: 'Command line',
    // The texts have lines of 80 characters.
    isWide: true,
    text: [
      '# Command line',
      'The package `shardwise` brings the command `shardwise`. These are the texts that it prints. [Launching ranks](/guides/launch) shows how the options go together.',
      ...sections,
      '## Exit codes',
      [
        '| code | meaning |',
        '| --- | --- |',
        '| 0 | every rank ended well; `verify`: nothing differs |',
        '| 1 | `verify`: something differs; `profile`: the steps never came |',
        '| 2 | the command line or the environment is wrong; nothing was started |',
        '| 130, 143 | the run was ended by Ctrl-C or SIGTERM, after a whole step |',
        '| another | that of the rank which failed first |',
      ].join('\n'),
    ].join('\n\n'),
  };
}
