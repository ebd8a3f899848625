import { once } from 'node:events';
import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, resolve, sep } from 'node:path';
import { isolation } from './isolation.ts';

export const built: string = join(import.meta.dirname, 'dist');

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.json': 'application/json',
  '.woff2': 'font/woff2',
  '.md': 'text/markdown; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
};

export interface SiteServer extends AsyncDisposable {
  readonly url: string;
}

/**
 * Serves the built site like a host of static files: `/learn/data` is `learn/data.html`. `isolated` is whether it
 * isolates pages. `base` is the path below which the site is. Port 0 is any free port. Throws what `listen` reports,
 * such as a port that is in use.
 */
export async function serveSite({
  isolated = true,
  folder = built,
  base = '/',
  port = 0,
} = {}): Promise<SiteServer> {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? '/', 'http://localhost').pathname);
    const file = resolve(folder, `./${path.slice(base.length)}`);
    const inside = path.startsWith(base) && (file === folder || file.startsWith(folder + sep));
    const found = inside
      ? [file, `${file}.html`, join(file, 'index.html')].find(
          (each) => existsSync(each) && statSync(each).isFile(),
        )
      : undefined;
    const target = found ?? join(folder, '404.html');
    response.writeHead(found === undefined ? 404 : 200, {
      ...(isolated ? isolation : {}),
      'Content-Type': types[extname(target)] ?? 'application/octet-stream',
      // The names of these files change with their contents. `_headers` makes hosts send the same header.
      ...(path.startsWith(`${base}assets/`)
        ? { 'Cache-Control': 'public, max-age=31536000, immutable' }
        : {}),
    });
    createReadStream(target).pipe(response);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new TypeError('no port');
  return {
    url: `http://127.0.0.1:${address.port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
