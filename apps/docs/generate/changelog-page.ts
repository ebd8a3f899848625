import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inline } from './markdown.ts';
import { repository } from './packages.ts';
import type { GeneratedPage } from './page.ts';

/**
 * Makes the page of changes: those of the next release from the changesets, and earlier ones from the umbrella
 * package's changelog.
 */
export function changelogPage(): GeneratedPage {
  const changes = globSync('.changeset/*.md', { cwd: repository })
    .toSorted()
    .flatMap((path) => {
      const text = readFileSync(join(repository, path), 'utf8')
        .replace(/^---\n[^]*?---\n/, '')
        .trim();
      return text === '' || path.endsWith('README.md')
        ? []
        : `- ${inline(text).replaceAll('\n', '\n  ')}`;
    });
  const earlier = join(repository, 'packages/shardwise/CHANGELOG.md');
  const releases = existsSync(earlier) ? readFileSync(earlier, 'utf8').replace(/^# .*\n/, '') : '';
  return {
    path: 'changelog.md',
    title: 'Changelog',
    text: ['# Changelog', '## Next release', ...changes, releases].join('\n\n'),
  };
}
