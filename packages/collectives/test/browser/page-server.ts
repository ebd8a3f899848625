import { readFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { stripTypeScriptTypes } from 'node:module';
import { join, resolve, sep } from 'node:path';

const repository = resolve(import.meta.dirname, '../../../..');
const SOURCE = '@shardwise/source';
const MAX_RESULT_BYTES = 16 << 20;

const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

/** Also of scripts that cannot be loaded. */
const reportFailures = `
  const report = (text) => void fetch('/failure', { method: 'POST', body: text });
  addEventListener('error', ({ message, target }) => report(message ?? target.outerHTML), true);
  addEventListener('unhandledrejection', ({ reason }) => report(String(reason)));
`;

export interface PageServer extends AsyncDisposable {
  readonly url: string;
  /** What the page posts to /result; rejects where its scripts fail. */
  readonly result: Promise<unknown>;
}

/**
 * Serves the repository's TypeScript sources to a browser as modules without types, and a page that
 * runs test/browser/page/page.ts; with the headers that isolate it, or without.
 */
export async function servePage({ isolated }: { isolated: boolean }): Promise<PageServer> {
  const result = Promise.withResolvers<unknown>();
  // The test may end before it looks.
  result.promise.catch(() => {});
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://localhost').pathname;
    const headers = isolated ? isolation : {};
    if (request.method === 'POST') {
      let text = '';
      request.setEncoding('utf8');
      request.on('data', (part: string) => {
        text += part;
        if (text.length > MAX_RESULT_BYTES) request.destroy();
      });
      request.on('end', () => {
        if (path === '/failure') result.reject(new Error(`The page failed: ${text}`));
        else result.resolve(JSON.parse(text));
        response.end();
      });
    } else if (path === '/') {
      const script = '/packages/collectives/test/browser/page/page.ts';
      response.writeHead(200, { ...headers, 'Content-Type': 'text/html' });
      response.end(
        `<!doctype html><script>${reportFailures}</script><script type="module" src="${script}"></script>`,
      );
    } else sendModule(path, headers, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('no port');
  return {
    url: `http://127.0.0.1:${address.port}/`,
    result: result.promise,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function sendModule(
  path: string,
  headers: Readonly<Record<string, string>>,
  response: ServerResponse,
): void {
  const file = resolve(repository, `.${path}`);
  if (!file.startsWith(join(repository, 'packages') + sep) || !file.endsWith('.ts')) {
    response.writeHead(404).end();
    return;
  }
  const code = stripTypeScriptTypes(readFileSync(file, 'utf8'));
  response.writeHead(200, { ...headers, 'Content-Type': 'text/javascript' });
  // Workers know no import maps.
  response.end(
    code.replace(/(\bfrom\s*')(@shardwise\/[^']+)'/g, (_, start: string, name: string) => {
      return `${start}${sourceOf(name)}'`;
    }),
  );
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
