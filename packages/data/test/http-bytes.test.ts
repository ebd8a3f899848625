import { createServer, type RequestListener, type Server } from 'node:http';
import { DataError } from '@shardwise/core';
import { httpBytes, readJsonLines } from '@shardwise/data';
import { afterEach, describe, expect, it } from 'vitest';

const content = new TextEncoder().encode(
  Array.from({ length: 300 }, (_, i) => `{"n": ${i}}\n`).join(''),
);

let server: Server | undefined;
afterEach(() => void server?.close());

/** Starts a server, and returns the URL of its only file. */
async function serve(listener: RequestListener): Promise<string> {
  const started = createServer(listener);
  server = started;
  await new Promise<void>((resolve) => started.listen(0, '127.0.0.1', resolve));
  const address = started.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}/train.jsonl`;
}

/** Answers with ranges of the content, as servers of files do. */
const ranges =
  (etag: () => string = () => '"1"'): RequestListener =>
  (request, response) => {
    const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    const last = Math.min(Number(end), content.length - 1);
    const head = {
      'content-range': `bytes ${start}-${last}/${content.length}`,
      etag: etag(),
    };
    response.writeHead(206, head).end(content.subarray(Number(start), last + 1));
  };

describe('httpBytes', () => {
  it('reads rows in ranges', async () => {
    const seen: (string | undefined)[] = [];
    const url = await serve((request, response) => {
      seen.push(request.headers.authorization);
      ranges()(request, response);
    });
    const source = await httpBytes(url, { headers: { authorization: 'Bearer x' } });
    expect([source.name, source.size]).toEqual([url, content.length]);
    const rows = await readJsonLines(source);
    expect([rows.length, await rows.get(299)]).toEqual([300, { n: 299 }]);
    // The size, and the file once for its lines. The row is in the block that was read last.
    expect(seen).toEqual(['Bearer x', 'Bearer x']);
  });

  it('asks again after failures of the server and of the connection', async () => {
    let requests = 0;
    const url = await serve((request, response) => {
      requests += 1;
      if (requests === 2) response.writeHead(503).end();
      else if (requests === 3) response.destroy();
      else ranges()(request, response);
    });
    const source = await httpBytes(url);
    expect(await source.read(3, 9)).toEqual(content.slice(3, 9));
    expect(requests).toBe(4);
  });

  it('gives up after as many failures as it may', async () => {
    let requests = 0;
    const url = await serve((_request, response) => {
      requests += 1;
      response.writeHead(500).end();
    });
    await expect(httpBytes(url, { retries: 1 })).rejects.toThrow(/status 500, 2 times/);
    expect(requests).toBe(2);
  });

  it('refuses servers without ranges, missing files, and content that has changed', async () => {
    const whole = await serve((_request, response) => void response.writeHead(200).end(content));
    await expect(httpBytes(whole)).rejects.toThrow(/status 200 with no range/);
    server?.close();
    const missing = await serve((_request, response) => void response.writeHead(404).end());
    await expect(httpBytes(missing)).rejects.toThrow(DataError);
    server?.close();
    let etag = '"1"';
    const source = await httpBytes(await serve(ranges(() => etag)));
    etag = '"2"';
    await expect(source.read(0, 2)).rejects.toThrow(/"2"\) instead of/);
  });
});
