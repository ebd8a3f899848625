// Builds the site below a path of its host, `SHARDWISE_DOCS_BASE`, into the folder that is the argument. It builds the
// start and the page about pipelines, which reach their files in the same way as all pages, and no other explorers.
import { join } from 'node:path';
import { build } from 'vitepress';

const [, , outDir = ''] = process.argv;
const pages = ['index.md', 'learn/index.md', 'learn/pipelines.md'];
const explorer =
  /\/(?:live|explorers|benchmark|playground)\/(?!.*pipeline|run-example)|^\.\/playground\.ts$/;
const importers = /\/(?:theme\/index|playground\/run-example)\.ts$/;
const NOTHING = '\0no-explorer';

await build(join(import.meta.dirname, '../..'), {
  outDir,
  onAfterConfigResolve: (site) => {
    site.pages = site.pages.filter((page) => pages.includes(page));
    // Links to the pages that are left out are dead.
    site.ignoreDeadLinks = true;
    site.vite = {
      ...site.vite,
      plugins: [
        ...(site.vite?.plugins ?? []),
        {
          name: 'without-other-explorers',
          enforce: 'pre',
          resolveId: (source, importer = '') =>
            importers.test(importer) && explorer.test(source) ? NOTHING : undefined,
          load: (id) => (id === NOTHING ? 'export {};' : undefined),
        },
      ],
    };
  },
});
