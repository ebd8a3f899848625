import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { joinedMetrics } from '../src/replicas/joined-metrics.ts';
import { replicaApp, type ReplicaAppOptions } from '../src/replicas/replica-app.ts';
import type { Replica } from '../src/replicas/replica-loads.ts';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

/** A server of this machine that answers as a test says. */
async function serve(
  answer: (response: ServerResponse, request: IncomingMessage) => void,
): Promise<{ url: string; close(): void }> {
  const server = createServer((request, response) => answer(response, request));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  closing.push(close);
  return { url: `http://127.0.0.1:${port}`, close };
}

function says(name: string): (response: ServerResponse) => void {
  return (response) => response.setHeader('content-type', 'application/json').end(`"${name}"`);
}

function appOf(
  replicas: readonly Replica[],
  options: Partial<ReplicaAppOptions> = {},
): {
  post(body?: object | string, headers?: Record<string, string>): Promise<Response>;
} & ReturnType<typeof replicaApp> {
  const app = replicaApp({ replicas, ...options });
  return {
    ...app,
    get open() {
      return app.open;
    },
    post: async (body = {}, headers = {}) =>
      app.fetch(
        new Request('http://localhost/v1/completions', {
          method: 'POST',
          body: typeof body === 'string' ? body : JSON.stringify(body),
          headers,
        }),
      ),
  };
}

const get = (path: string): Request => new Request(`http://localhost${path}`);

describe('An application that divides requests between replicas', () => {
  test('gives each request to the one with the fewest tokens outstanding.', async () => {
    const waiting: ServerResponse[] = [];
    const [first, second] = await Promise.all([
      serve((response) => void waiting.push(response)),
      serve(says('second')),
    ]);
    const app = appOf([first, second]);
    const long = app.post({ max_tokens: 1000 });
    await expect.poll(() => waiting.length).toBe(1);
    for (let i = 0; i < 3; i++) expect(await (await app.post()).text()).toBe('"second"');
    expect(app.open).toBe(1);
    waiting[0]?.end('"first"');
    expect(await (await long).text()).toBe('"first"');
    expect(app.open).toBe(0);
    // Both have nothing to do now.
    void app.post({ max_tokens: 10 });
    await expect.poll(() => waiting.length).toBe(2);
  });

  test('gives each turn of a conversation to the one that had the turns before, and counts what it expects there.', async () => {
    const seen: string[] = [];
    const waiting: ServerResponse[] = [];
    const replica = (name: string) =>
      serve((response, request) => {
        if (request.method === 'POST') {
          seen.push(name);
          waiting.push(response);
        } else response.end();
      });
    const [first, second] = await Promise.all([replica('first'), replica('second')]);
    const app = appOf([first, second]);
    /** Has both answer at the same time, so that the one with less to do is the other one. */
    const ask = async (...prompts: readonly string[]): Promise<readonly string[]> => {
      const answers = prompts.map((prompt) => app.post({ prompt, max_tokens: 1 }));
      await expect.poll(() => waiting.length).toBe(prompts.length);
      for (const response of waiting.splice(0)) response.end();
      await Promise.all(answers);
      return seen.splice(0).toSorted();
    };
    let [cats, dogs] = ['cats '.repeat(100), 'dogs '.repeat(100)];
    expect(await ask(cats)).toEqual(['first']);
    expect(await ask(dogs)).toEqual(['first']);
    // A new conversation goes to the replica that has less to do.
    cats = 'lions '.repeat(100);
    expect(await ask(dogs, cats)).toEqual(['first', 'second']);
    for (let turn = 0; turn < 3; turn++) {
      [cats, dogs] = [`${cats}!`, `${dogs}!`];
      expect(await ask(cats)).toEqual(['second']);
      expect(await ask(dogs)).toEqual(['first']);
    }
    const metrics = await (await app.fetch(get('/metrics'))).text();
    // Of 502 bytes of "dogs", 7 blocks of 64 are known four times. Of 602 bytes of "lions", 9 are known three times.
    const name = 'shardwise:expected_prefix_tokens_total';
    expect(metrics).toContain(`${name}{replica="0"} ${4 * 7 * 16}\n`);
    expect(metrics).toContain(`${name}{replica="1"} ${3 * 9 * 16}\n`);
  });

  test('lets replicas refuse pages of other addresses, gives its page to those without a key, and draws one cache.', async () => {
    const seen: unknown[] = [];
    const replica = (name: string) =>
      serve((response, request) => {
        seen.push([name, request.url, request.headers['sec-fetch-site']]);
        response.end();
      });
    const [first, second] = await Promise.all([replica('first'), replica('second')]);
    const key = { authorization: 'Bearer secret' };
    const app = appOf([first, second], { apiKeys: ['secret'] });
    await app.post({}, { ...key, 'sec-fetch-site': 'cross-site' });
    expect(seen.splice(0)).toEqual([['first', '/v1/completions', 'cross-site']]);
    const statusAt = async (path: string): Promise<number> => (await app.fetch(get(path))).status;
    expect([await statusAt('/'), await statusAt('/page.js')]).toEqual([200, 200]);
    expect([await statusAt('/state'), await statusAt('/metrics')]).toEqual([401, 401]);
    seen.length = 0;
    for (const path of ['/state', '/state']) {
      await app.fetch(new Request(`http://localhost${path}`, { headers: key }));
    }
    expect(seen.map((each) => String(each))).toEqual(['first,/state,', 'first,/state,']);
  });

  test('passes the body, the status and the headers of an answer on, and the key of a request.', async () => {
    let seen: unknown;
    const replica = await serve((response, request) => {
      seen = [request.method, request.url, request.headers.authorization];
      response.writeHead(418, { 'x-own': 'a', 'content-type': 'text/plain' }).end('tea');
    });
    const response = await appOf([replica]).post({}, { authorization: 'Bearer k' });
    expect([response.status, response.headers.get('x-own'), await response.text()]).toEqual([
      418,
      'a',
      'tea',
    ]);
    expect(seen).toEqual(['POST', '/v1/completions', 'Bearer k']);
  });

  test('passes events on as they come.', async () => {
    let upstream: ServerResponse | undefined;
    const replica = await serve((response) => {
      upstream = response;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
    });
    const app = appOf([replica]);
    const reader = (await app.post()).body?.getReader() ?? expect.fail();
    const next = async (): Promise<string> => new TextDecoder().decode((await reader.read()).value);
    expect(await next()).toBe('data: 1\n\n');
    upstream?.write('data: 2\n\n');
    expect(await next()).toBe('data: 2\n\n');
    expect(app.open).toBe(1);
    upstream?.end();
    expect((await reader.read()).done).toBe(true);
    expect(app.open).toBe(0);
  });

  test('ends what a replica makes for a client that has gone.', async () => {
    let hasGone = false;
    const replica = await serve((response) => {
      response.on('close', () => (hasGone = true));
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
    });
    const app = appOf([replica]);
    await (await app.post()).body?.cancel();
    await expect.poll(() => hasGone).toBe(true);
    expect(app.open).toBe(0);
  });

  test('counts a request once that a client leaves while it waits for more of a stream.', async () => {
    const streaming: ServerResponse[] = [];
    const replica = await serve((response) => {
      streaming.push(response);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
    });
    const app = appOf([replica]);
    const reader = (await app.post()).body?.getReader() ?? expect.fail();
    await reader.read();
    const more = reader.read();
    await reader.cancel();
    expect(await more).toMatchObject({ done: true });
    await expect.poll(() => streaming[0]?.destroyed).toBe(true);
    expect(app.open).toBe(0);
    await (await app.post()).body?.cancel();
    expect(app.open).toBe(0);
  });

  describe.each(['error', 'retry'] as const)('if a replica is lost (%s)', (onRankFailure) => {
    test.each([
      ['before it answers', (response: ServerResponse) => void response.destroy()],
      [
        'within its answer',
        (response: ServerResponse) => {
          response.writeHead(200, { 'content-length': '100' });
          response.write('a', () => response.destroy());
        },
      ],
    ])('%s, says so or has another one begin anew.', async (_, answer) => {
      const [lost, other] = await Promise.all([serve(answer), serve(says('other'))]);
      const app = appOf([lost, other], { onRankFailure });
      const response = await app.post();
      const text = await response.text();
      if (onRankFailure === 'retry') expect([response.status, text]).toEqual([200, '"other"']);
      else expect([response.status, text]).toEqual([502, expect.stringContaining('rank_lost')]);
      expect(app.open).toBe(0);
    });

    test('within a stream, says so in its last event.', async () => {
      const [lost, other] = await Promise.all([
        serve((response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          response.write('data: 1\n\n', () => response.destroy());
        }),
        serve(says('other')),
      ]);
      const app = appOf([lost, other], { onRankFailure });
      const response = await app.post();
      const [first, last = '', ...rest] = (await response.text()).split(/\n\n+/);
      expect([response.status, first, rest]).toEqual([200, 'data: 1', ['']]);
      expect(JSON.parse(last.replace(/^data: /, ''))).toMatchObject({
        error: { type: 'server_error', code: 'rank_lost' },
      });
      expect(app.open).toBe(0);
    });

    test('within an event of a stream, says so in its place.', async () => {
      const lost = await serve((response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"first":', () => {
          response.write('1}\n\ndata: {"second":', () => response.destroy());
        });
      });
      const app = appOf([lost], { onRankFailure });
      const text = await (await app.post()).text();
      const events = text.split('\n\n').filter((each) => each !== '');
      const [first, last, ...rest] = events.map((each): unknown =>
        JSON.parse(each.replace(/^data: /, '')),
      );
      expect([first, rest]).toEqual([{ first: 1 }, []]);
      expect(last).toMatchObject({ error: { code: 'rank_lost' } });
      expect(app.open).toBe(0);
    });

    test('before the first event of a stream, says so or has another one begin anew.', async () => {
      const [lost, other] = await Promise.all([
        serve((response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          response.flushHeaders();
          setImmediate(() => response.destroy());
        }),
        serve(says('other')),
      ]);
      const app = appOf([lost, other], { onRankFailure });
      const response = await app.post();
      const text = await response.text();
      if (onRankFailure === 'retry') expect([response.status, text]).toEqual([200, '"other"']);
      else expect([response.status, text]).toEqual([502, expect.stringContaining('rank_lost')]);
      expect(app.open).toBe(0);
    });

    test('and cannot be connected to, asks another one.', async () => {
      const [lost, other] = await Promise.all([serve(says('lost')), serve(says('other'))]);
      lost.close();
      const response = await appOf([lost, other], { onRankFailure }).post();
      expect([response.status, await response.text()]).toEqual([200, '"other"']);
    });
  });

  test('says that no replica listens, and asks the one that listens again.', async () => {
    const replica: { url: string | null } = { url: null };
    const app = appOf([replica]);
    const none = await app.post();
    expect([none.status, none.headers.get('retry-after')]).toEqual([503, '1']);
    expect((await app.fetch(get('/health'))).status).toBe(503);
    replica.url = (await serve(says('again'))).url;
    expect((await app.post()).status).toBe(200);
    expect(await (await app.fetch(get('/health'))).json()).toEqual({
      status: 'ok',
      replicas: 1,
      listening: 1,
    });
  });

  test('asks for a key before it reads a body, bounds the body, and closes.', async () => {
    const app = appOf([await serve(says('a'))], { apiKeys: ['k'], maxBodyBytes: 20 });
    expect((await app.post('x'.repeat(30))).status).toBe(401);
    const authorization = 'Bearer k';
    expect((await app.post('x'.repeat(30), { authorization })).status).toBe(413);
    expect((await app.post('{}', { authorization })).status).toBe(200);
    app.close();
    expect((await app.post('{}', { authorization })).status).toBe(503);
  });
});

test('Figures of replicas stand together, each with its replica.', async () => {
  const text = (value: number): string =>
    `# HELP a First.\n# TYPE a gauge\na{model_name="m"} ${value}\n# HELP b Second.\n# TYPE b counter\nb ${value}\n`;
  expect(
    joinedMetrics(
      new Map([
        [0, text(1)],
        [2, text(3)],
      ]),
    ),
  ).toBe(
    [
      '# HELP a First.',
      '# TYPE a gauge',
      'a{replica="0",model_name="m"} 1',
      'a{replica="2",model_name="m"} 3',
      '# HELP b Second.',
      '# TYPE b counter',
      'b{replica="0"} 1',
      'b{replica="2"} 3',
      '',
    ].join('\n'),
  );
});
