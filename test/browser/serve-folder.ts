import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, resolve, sep } from 'node:path';

const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};
const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
};

export interface FolderServer extends AsyncDisposable {
  readonly url: string;
  /** What the page posts to /result; rejects with what it posts to /failure. */
  readonly result: Promise<unknown>;
}

/** Serves a built page to a browser, with the headers that isolate it or without, and gives it its tasks. */
export async function serveFolder(
  folder: string,
  { isolated, tasks }: { readonly isolated: boolean; readonly tasks: unknown },
): Promise<FolderServer> {
  const result = Promise.withResolvers<unknown>();
  // The test may end before it looks.
  result.promise.catch(() => {});
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    if (request.method === 'POST') {
      let text = '';
      request.setEncoding('utf8');
      request.on('data', (part: string) => (text += part));
      request.on('end', () => {
        if (pathname === '/failure') result.reject(new Error(`The page failed: ${text}`));
        else result.resolve(JSON.parse(text));
        response.end();
      });
      return;
    }
    if (pathname === '/tasks') {
      response.end(JSON.stringify(tasks));
      return;
    }
    const file = resolve(folder, `.${pathname === '/' ? '/index.html' : pathname}`);
    try {
      if (!file.startsWith(join(folder, sep))) throw new RangeError(pathname);
      const body = readFileSync(file);
      const type = types[extname(file)] ?? 'application/octet-stream';
      response.writeHead(200, { ...(isolated ? isolation : {}), 'Content-Type': type });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
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
