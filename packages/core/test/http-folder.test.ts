import { createServer, type RequestListener, type Server } from 'node:http';
import { CheckpointError, ConfigError } from '@shardwise/core';
import { httpFolder } from '@shardwise/core/extend';
import { afterEach, describe, expect, it } from 'vitest';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}`;
}

const content = Uint8Array.from({ length: 700_000 }, (_, i) => (i * 31 + (i >> 8)) % 251);

/** Answers with ranges of the content, as servers of files do. */
const ranges: RequestListener = (request, response) => {
  const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
  if (start === undefined) {
    response.writeHead(200, { etag: '"1"' }).end(content);
    return;
  }
  const last = Math.min(Number(end), content.length - 1);
  const head = { 'content-range': `bytes ${start}-${last}/${content.length}`, etag: '"1"' };
  response.writeHead(206, head).end(content.subarray(Number(start), last + 1));
};

describe('a folder of a web server', () => {
  it('has files under the path of its URL, with its query', async () => {
    const seen: (string | undefined)[] = [];
    const url = await serve((request, response) => {
      seen.push(request.url);
      if (request.url?.includes('missing') === true) response.writeHead(404).end();
      else ranges(request, response);
    });
    const folder = httpFolder(`${url}/models/small/?signature=s3cret`);
    expect(folder.place).toBe(`${url}/models/small`);
    expect((await folder.open('a b/c+d.bin'))?.byteLength).toBe(content.length);
    expect((await folder.readText('config.json'))?.length).toBeGreaterThan(0);
    expect(await folder.open('missing')).toBeUndefined();
    expect(await folder.readText('missing')).toBeUndefined();
    expect(seen).toEqual([
      '/models/small/a%20b/c%2Bd.bin?signature=s3cret',
      '/models/small/config.json?signature=s3cret',
      '/models/small/missing?signature=s3cret',
      '/models/small/missing?signature=s3cret',
    ]);
  });

  it('gives what has come before a connection broke, and asks only for the rest', async () => {
    const asked: (string | undefined)[] = [];
    const url = await serve((request, response) => {
      asked.push(request.headers.range);
      if (asked.length !== 2) return ranges(request, response);
      const head = {
        'content-range': `bytes 0-${content.length - 1}/${content.length}`,
        'content-length': content.length,
        etag: '"1"',
      };
      response.writeHead(206, head).write(content.subarray(0, 400_000), () => {
        setTimeout(() => response.destroy(), 100);
      });
    });
    const file = await httpFolder(url).open('file');
    const found = new Uint8Array(content.length);
    expect(await file?.read(found, 0)).toBe(content.length);
    expect(Buffer.compare(found, content)).toBe(0);
    expect(asked.slice(0, 2)).toEqual(['bytes=0-0', 'bytes=0-699999']);
    const [, start] = /^bytes=(\d+)-699999$/.exec(asked[2] ?? '') ?? [];
    expect(Number(start)).toBeGreaterThan(0);
  });

  it('is refused if nothing tells when a file changes, and says so if one has changed', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(206, { 'content-range': 'bytes 0-0/9' }).end('x');
    });
    await expect(httpFolder(url).open('file')).rejects.toThrow(/neither ETag nor Last-Modified/);
    const changing = await serve((request, response) => {
      if (request.headers['if-match'] === undefined) ranges(request, response);
      else response.writeHead(412).end();
    });
    const file = await httpFolder(changing).open('file');
    await expect(file?.read(new Uint8Array(9), 0)).rejects.toThrow(/another version instead/);
  });

  it('never writes more than a range has, whatever a server sends', async () => {
    const url = await serve((request, response) => {
      if (request.headers.range === 'bytes=0-0') return ranges(request, response);
      const head = { 'content-range': `bytes 0-299999/${content.length}`, etag: '"1"' };
      response.writeHead(206, head).end(content);
    });
    const file = await httpFolder(url).open('file');
    await expect(file?.read(new Uint8Array(300_000), 0)).rejects.toThrow(
      /more bytes than the range/,
    );
  });
});

describe('headers of a folder', () => {
  it('go to its host, and after a redirect to no other one', async () => {
    const seen: string[] = [];
    const note =
      (name: string, to?: () => string): RequestListener =>
      (request, response) => {
        const { authorization, 'x-key': key } = request.headers;
        seen.push(`${name} ${authorization} ${String(key)}`);
        if (to === undefined) ranges(request, response);
        else response.writeHead(302, { location: to() }).end();
      };
    const other = await serve(note('other'));
    let hop = '';
    const url = await serve((request, response) => {
      const target = request.url === '/models/file' ? `${hop}/again` : `${other}/file`;
      note('own', () => target)(request, response);
    });
    hop = url;
    const headers = { authorization: 'Bearer s3cret', 'x-key': 'k3y' };
    const file = await httpFolder(`${url}/models`, { headers }).open('file');
    expect(file?.byteLength).toBe(content.length);
    expect(seen).toEqual([
      'own Bearer s3cret k3y',
      'own Bearer s3cret k3y',
      'other undefined undefined',
    ]);
  });

  it('are in no error, and neither are passwords and queries of URLs', async () => {
    const url = await serve((_request, response) => void response.writeHead(403).end());
    const headers = { authorization: 'Bearer s3cret' };
    const folder = httpFolder(`${url}/models?token=s3cret`, { headers, retries: 0 });
    for (const work of [folder.open('file'), folder.readText('file')]) {
      const error = await work.catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(CheckpointError);
      const text = error instanceof Error ? `${error.stack}${JSON.stringify(error)}` : '';
      expect(text).toContain('/models/file');
      expect(text).not.toContain('s3cret');
    }
    const secret = ((): unknown => {
      try {
        return httpFolder('https://user:s3cret@example.com/x');
      } catch (error) {
        return error;
      }
    })();
    expect(secret).toBeInstanceOf(ConfigError);
    expect(String(secret)).not.toContain('s3cret');
    expect(() => httpFolder('ftp://example.com')).toThrow(ConfigError);
  });

  it('end a circle of redirects', async () => {
    let requests = 0;
    const url = await serve((_request, response) => {
      requests += 1;
      response.writeHead(302, { location: '/again' }).end();
    });
    const folder = httpFolder(url, { headers: { authorization: 'x' } });
    await expect(folder.open('file')).rejects.toThrow(/a redirect more than 5 times/);
    expect(requests).toBe(6);
  });
});
