// Builds the site for a base path, which `SHARDWISE_DOCS_BASE` gives, into the folder that is the argument. Builds only
// the start page and the pages under learn/. All pages find their files in the same way.
import { join } from 'node:path';
import { build } from 'vitepress';

const [, , outDir = ''] = process.argv;
await build(join(import.meta.dirname, '../..'), {
  outDir,
  onAfterConfigResolve: (site) => {
    site.pages = site.pages.filter((page) => page === 'index.md' || page.startsWith('learn/'));
    // Links to pages that are not built here are dead.
    site.ignoreDeadLinks = true;
  },
});
