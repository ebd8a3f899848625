import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';

const MAX_RESULT_BYTES = 16 << 20;

const isolation = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

export interface ServedPage extends AsyncDisposable {
  readonly url: string;
  /** Resolves to what the page posts to /result. Rejects with what it posts to /failure. */
  readonly result: Promise<unknown>;
}

export interface PageFile {
  readonly type: string;
  readonly body: string | Uint8Array;
}

export interface ServePageOptions {
  /** Whether the page is isolated from others, so that its workers can share memory. */
  readonly isolated: boolean;
  /** Returns the file at a path, or undefined if there is none. */
  readonly fileAt: (pathname: string) => PageFile | undefined;
}

/** Serves a page to a browser on this machine and receives the result that the page posts. */
export async function servePage({ isolated, fileAt }: ServePageOptions): Promise<ServedPage> {
  const result = Promise.withResolvers<unknown>();
  // The test may end before it looks at the result.
  result.promise.catch(() => {});
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost');
    if (request.method === 'POST') {
      receive(request, (text) => {
        if (pathname === '/failure') result.reject(new Error(`The page failed: ${text}`));
        else result.resolve(JSON.parse(text));
        response.end();
      });
      return;
    }
    const file = fileAt(pathname);
    if (file === undefined) response.writeHead(404).end();
    else {
      response.writeHead(200, { ...(isolated ? isolation : {}), 'Content-Type': file.type });
      response.end(file.body);
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

function receive(request: IncomingMessage, done: (text: string) => void): void {
  let text = '';
  request.setEncoding('utf8');
  request.on('data', (part: string) => {
    text += part;
    if (text.length > MAX_RESULT_BYTES) request.destroy();
  });
  request.on('end', () => done(text));
}
