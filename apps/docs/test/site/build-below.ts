// Builds the site below a path of its host, `SHARDWISE_DOCS_BASE`, into the folder that is the argument. It builds only
// the pages that people learn from, which reach their files in the same way as all pages.
import { join } from 'node:path';
import { build } from 'vitepress';

const [, , outDir = ''] = process.argv;
await build(join(import.meta.dirname, '../..'), {
  outDir,
  onAfterConfigResolve: (site) => {
    site.pages = site.pages.filter((page) => page === 'index.md' || page.startsWith('learn/'));
    // Links to the pages that are left out are dead.
    site.ignoreDeadLinks = true;
  },
});
