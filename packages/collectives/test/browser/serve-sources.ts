import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join, resolve, sep } from 'node:path';
import { servePage, type PageFile, type ServedPage } from '../../../../test/support/serve-page.ts';

const repository = resolve(import.meta.dirname, '../../../..');
const SOURCE = '@shardwise/source';
const SCRIPT = '/packages/collectives/test/browser/page/page.ts';

/** The script that reports failures, including scripts that cannot be loaded. */
const reportFailures = `
  const report = (text) => void fetch('/failure', { method: 'POST', body: text });
  addEventListener('error', ({ message, target }) => report(message ?? target.outerHTML), true);
  addEventListener('unhandledrejection', ({ reason }) => report(String(reason)));
`;

/**
 * Serves the repository's TypeScript sources to a browser as modules without types, and a page that runs
 * test/browser/page/page.ts. If `isolated`, the headers isolate the page.
 */
export function serveSources({ isolated }: { isolated: boolean }): Promise<ServedPage> {
  return servePage({
    isolated,
    fileAt: (pathname) => (pathname === '/' ? page : moduleAt(pathname)),
  });
}

const page: PageFile = {
  type: 'text/html',
  body: `<!doctype html><script>${reportFailures}</script><script type="module" src="${SCRIPT}"></script>`,
};

function moduleAt(pathname: string): PageFile | undefined {
  const file = resolve(repository, `.${pathname}`);
  if (!file.startsWith(join(repository, 'packages') + sep) || !file.endsWith('.ts'))
    return undefined;
  const code = stripTypeScriptTypes(readFileSync(file, 'utf8'));
  // Workers ignore import maps, so imports of packages are replaced by paths.
  const body = code.replace(
    /(\bfrom\s*')(@shardwise\/[^']+)'/g,
    (_, start: string, name: string) => `${start}${sourceOf(name)}'`,
  );
  return { type: 'text/javascript', body };
}

/** The path of a package's entry point. */
function sourceOf(specifier: string): string {
  const [, scope = '', ...rest] = specifier.split('/');
  const manifest: { exports: Record<string, Record<string, string>> } = JSON.parse(
    readFileSync(join(repository, 'packages', scope, 'package.json'), 'utf8'),
  );
  const entry = manifest.exports[['.', ...rest].join('/')]?.[SOURCE];
  if (entry === undefined) throw new TypeError(`${specifier} has no source`);
  return `/packages/${scope}/${entry.slice(2)}`;
}
