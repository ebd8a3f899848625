// Builds the site below a path of its host, `SHARDWISE_DOCS_BASE`, into the folder that is the argument: the pages that people learn
// from, whose way to their files is that of all pages.
import { join } from 'node:path';
import { build } from 'vitepress';

const [, , outDir = ''] = process.argv;
await build(join(import.meta.dirname, '../..'), {
  outDir,
  onAfterConfigResolve: (site) => {
    site.pages = site.pages.filter((page) => page === 'index.md' || page.startsWith('learn/'));
    // Those to the other pages.
    site.ignoreDeadLinks = true;
  },
});
