import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Group } from './declarations.ts';
import { anchorOf } from './reference/anchors.ts';
import type { GeneratedPage } from './page.ts';
import { repository } from './packages.ts';
import { remedies } from './remedies.ts';

/** Makes the page with one line for each error: its class, its code, when it is thrown, and what to do. */
export function errorsPage(groups: readonly Group[]): GeneratedPage {
  const classes = groups
    .flatMap(({ entries }) => entries)
    .filter(({ kind, source }) => kind === 'class' && source.path.endsWith('spec/errors.ts'));
  const source = readFileSync(join(repository, 'packages/core/src/spec/errors.ts'), 'utf8');
  const rows = new Map<string, string>();
  for (const { name } of classes) {
    const [, code] =
      new RegExp(`class ${name} [^]*?code(?:: string)? = '(\\w+)'`).exec(source) ?? [];
    if (code === undefined || name === 'ShardwiseError') continue;
    const remedy = remedies[code];
    if (remedy === undefined) throw new Error(`${code} has no remedy in generate/remedies.ts`);
    const link = `[\`${name}\`](/reference/error-classes.md#${anchorOf(name)})`;
    rows.set(code, `| ${link}<br>\`${code}\` | ${remedy.cause} | ${remedy.todo} |`);
  }
  return {
    path: 'reference/generated/errors.md',
    title: 'Errors',
    about: 'Every error class with its code, when it is thrown, and what to do.',
    isWide: true,
    text: [
      '# Errors',
      'Every error that you can meet is a `ShardwiseError`. Its message says what was asked, what was found and what to do.',
      [
        '- `code` is one of the codes below, and does not change between versions.',
        '- `fields` has the names and numbers of the message.',
        '- `ShardwiseError.isInstance(error)` also finds errors of another copy of the package.',
      ].join('\n'),
      '<div class="stacked">',
      ['| class and code | when | what to do |', '| --- | --- | --- |', ...rows.values()].join(
        '\n',
      ),
      '</div>',
    ].join('\n\n'),
  };
}
