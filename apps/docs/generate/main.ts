/**
 * Writes all pages that are made from the sources, and the page that tests the visitor's device, into `pages/`. Git
 * ignores them.
 */
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { changelogPage } from './changelog-page.ts';
import { commandLinePage } from './command-line-page.ts';
import { readGroups } from './declarations.ts';
import { buildContractPage } from './contract-page.ts';
import { documentPages } from './documents.ts';
import { errorsPage } from './errors-page.ts';
import { limitsPage } from './limits-page.ts';
import { referencePages } from './reference/reference-pages.ts';

const pages = join(import.meta.dirname, '..', 'pages');
// Pages of an earlier run. Those that people write can be edited by a link.
for (const path of globSync('**/*.md', { cwd: pages })) {
  const file = join(pages, path);
  const [frontMatter = ''] = readFileSync(file, 'utf8').match(/^---\n[^]*?\n---\n/) ?? [];
  if (frontMatter.includes('\neditLink: false\n')) rmSync(file);
}

const groups = readGroups();
const written = [
  ...referencePages(groups),
  errorsPage(groups),
  commandLinePage(),
  await limitsPage(),
  ...documentPages(),
  changelogPage(),
];
for (const { path, title, about, section, text, isWide = false } of written) {
  const file = join(pages, path);
  mkdirSync(dirname(file), { recursive: true });
  const head = [
    `title: ${JSON.stringify(title)}`,
    'editLink: false',
    ...(about === undefined ? [] : [`description: ${JSON.stringify(about.replaceAll('`', ''))}`]),
    ...(section === undefined
      ? []
      : [`section: ${JSON.stringify(section)}`, 'pageClass: signatures']),
    ...(isWide ? ['aside: false'] : []),
  ];
  writeFileSync(file, `---\n${head.join('\n')}\n---\n\n${text}\n`);
}
await buildContractPage(join(pages, 'public', 'contract'));
console.log(`${written.length} pages from the sources`);
process.exit();
