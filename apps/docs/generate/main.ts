/**
 * Writes all pages that are made from the sources, and the page that tests the visitor's device, into `pages/`. Git
 * ignores them.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { apiPages } from './api-pages.ts';
import { changelogPage } from './changelog-page.ts';
import { commandLinePage } from './command-line-page.ts';
import { readGroups } from './declarations.ts';
import { buildContractPage } from './contract-page.ts';
import { documentPages } from './documents.ts';
import { errorsPage } from './errors-page.ts';
import { limitsPage } from './limits-page.ts';

const pages = join(import.meta.dirname, '..', 'pages');
for (const folder of ['reference/api', 'reference/generated', 'how-it-works']) {
  rmSync(join(pages, folder), { recursive: true, force: true });
}

const groups = readGroups();
const written = [
  ...apiPages(groups),
  errorsPage(groups),
  commandLinePage(),
  await limitsPage(),
  ...documentPages(),
  changelogPage(),
];
for (const { path, title, text, isWide = false } of written) {
  const file = join(pages, path);
  mkdirSync(dirname(file), { recursive: true });
  const head = [
    `title: ${JSON.stringify(title)}`,
    'editLink: false',
    ...(path.startsWith('reference/api/') ? ['pageClass: signatures'] : []),
    ...(isWide ? ['aside: false'] : []),
  ];
  writeFileSync(file, `---\n${head.join('\n')}\n---\n\n${text}\n`);
}
await buildContractPage(join(pages, 'public', 'contract'));
console.log(`${written.length} pages from the sources`);
process.exit();
