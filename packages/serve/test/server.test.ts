import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { complete } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import { listen, type ListeningServer } from '../src/http/listen.ts';
import { openAIApp, type OpenAIAppOptions } from '../src/http/openai-app.ts';
import { useCpu } from './models.ts';

const tokenizer = byteTokenizer();
const errors: unknown[] = [];
let engine: Engine;
let server: ListeningServer;
let client: OpenAI;

const embed: NonNullable<OpenAIAppOptions['models'][number]['embed']> = async (inputs) => ({
  vectors: inputs.map((input) => Float32Array.of(input.length, 0.5)),
  tokens: inputs.length,
});

beforeAll(async () => {
  await useCpu();
  const config = { vocabSize: 260, nPositions: 256, nEmbd: 16, nLayer: 1, nHead: 2 };
  const model = new GPT2LMHeadModel(
    { ...config, initializerRange: 0.5 },
    { generator: new Generator(5) },
  );
  engine = new Engine(model, tokenizer);
  const app = openAIApp({
    models: [
      { id: 'small', engine, embed: null },
      { id: 'vectors', engine: null, embed },
    ],
    apiKeys: ['secret', 'other'],
    onError: (error) => errors.push(error),
    maxBodyBytes: 20_000,
  });
  server = await listen(app, { port: 0 });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'secret', maxRetries: 0 });
});

afterAll(async () => {
  await server.close();
  await engine.dispose();
  expect(errors).toEqual([]);
});

/** The text that the engine makes of a prompt. */
async function textOf(prompt: string | readonly number[], maxNewTokens: number): Promise<string> {
  const [first] = await complete(engine.generate({ prompt, maxNewTokens, temperature: 0 }));
  return first?.text ?? expect.fail();
}

function post(body: BodyInit, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${server.url}/v1/completions`, {
    method: 'POST',
    body,
    headers: { authorization: 'Bearer secret', ...headers },
  });
}

describe('The client of OpenAI', () => {
  test('gets completions', async () => {
    const answer = await client.completions.create({
      model: 'small',
      prompt: ['Once', 'upon a time'],
      max_tokens: 12,
      temperature: 0,
      logprobs: 2,
    });
    expect(answer.choices.map(({ text }) => text)).toEqual([
      await textOf('Once', 12),
      await textOf('upon a time', 12),
    ]);
    const [first] = answer.choices;
    expect(first?.logprobs?.token_logprobs).toHaveLength(12);
    expect(Object.keys(first?.logprobs?.top_logprobs?.[0] ?? {}).length).toBeGreaterThan(0);
    const { usage } = answer;
    expect(usage).toEqual({
      prompt_tokens: 15,
      completion_tokens: 24,
      total_tokens: 39,
      prompt_tokens_details: { cached_tokens: 0 },
    });
  });

  test('learns how many tokens of a prompt were in the cache', async () => {
    const text = 'A text that is longer than two blocks of the cache.';
    const length = tokenizer.encode(text).inputIds.length;
    const asked = { model: 'small', prompt: text, max_tokens: 2 };
    await client.completions.create(asked);
    const known = Math.floor((length - 1) / 16) * 16;
    const details = { cached_tokens: known };
    const { usage } = await client.completions.create(asked);
    expect(usage?.prompt_tokens_details).toEqual(details);
    const options = { stream: true, stream_options: { include_usage: true } } as const;
    let last: unknown;
    for await (const chunk of await client.completions.create({ ...asked, ...options })) {
      last = chunk.usage?.prompt_tokens_details;
    }
    expect(last).toEqual(details);
    const response = { model: 'small', input: text, max_output_tokens: 2 };
    await client.responses.create(response);
    const again = await client.responses.create(response);
    expect(again.usage?.input_tokens_details.cached_tokens).toBeGreaterThanOrEqual(known);
  });

  test('gets the bytes of tokens that are a part of a character', async () => {
    const asked = { model: 'small', max_tokens: 24, temperature: 2, seed: 3 };
    const { choices } = await client.completions.create({ ...asked, prompt: 'Once', logprobs: 5 });
    const { tokens = [], top_logprobs: top = [] } = choices[0]?.logprobs ?? {};
    // Each of them would be U+FFFD, and of five only one would be left.
    for (const each of top ?? []) expect(Object.keys(each)).toHaveLength(5);
    expect(tokens?.some((token) => /^bytes:\\x[89a-f][\da-f]$/.test(token))).toBe(true);
    const chat = await client.chat.completions.create({
      ...asked,
      messages: [{ role: 'user', content: 'Hello' }],
      logprobs: true,
    });
    const [choice] = chat.choices;
    const content = choice?.logprobs?.content ?? [];
    const special = new Set(Object.values(tokenizer.specialTokens));
    const bytes = content.flatMap(({ token, bytes }) => (special.has(token) ? [] : (bytes ?? [])));
    expect(new TextDecoder().decode(Uint8Array.from(bytes))).toBe(choice?.message.content);
  });

  test('gets the places of tokens in a text, also in a stream', async () => {
    const asked = { model: 'small', prompt: 'Once', max_tokens: 6, temperature: 0, logprobs: 0 };
    const { choices } = await client.completions.create(asked);
    const offsets: number[] = [];
    for await (const chunk of await client.completions.create({ ...asked, stream: true })) {
      offsets.push(...(chunk.choices[0]?.logprobs?.text_offset ?? []));
    }
    expect(offsets).toHaveLength(6);
    expect(new Set(offsets).size).toBeGreaterThan(1);
    expect(offsets).toEqual(choices[0]?.logprobs?.text_offset);
  });

  test('gets a stream of completions', async () => {
    const stream = await client.completions.create({
      model: 'small',
      prompt: 'Once',
      max_tokens: 12,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let tokens = 0;
    for await (const { choices, usage } of stream) {
      text += choices[0]?.text ?? '';
      tokens = usage?.completion_tokens ?? tokens;
    }
    expect(text).toBe(await textOf('Once', 12));
    expect(tokens).toBe(12);
  });

  test('gets answers of a chat, and a stream of them', async () => {
    const asked = {
      model: 'small',
      messages: [{ role: 'user' as const, content: 'Hello' }],
      max_completion_tokens: 10,
      temperature: 0,
      logprobs: true,
      top_logprobs: 3,
    };
    const prompt = tokenizer.encode('<s>Hello\n', { addSpecialTokens: false }).inputIds;
    const expected = await textOf(prompt, 10);
    const { choices } = await client.chat.completions.create(asked);
    expect(choices[0]?.message).toMatchObject({ role: 'assistant', content: expected });
    expect(choices[0]?.finish_reason).toBe('length');
    expect(choices[0]?.logprobs?.content?.[0]?.top_logprobs).toHaveLength(3);
    let text = '';
    for await (const chunk of await client.chat.completions.create({ ...asked, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? '';
    }
    expect(text).toBe(expected);
  });

  test('gets responses, and a stream of them', async () => {
    const asked = { model: 'small', input: 'Hello', max_output_tokens: 10, temperature: 0 };
    const answer = await client.responses.create(asked);
    expect(answer.status).toBe('incomplete');
    expect(answer.incomplete_details).toEqual({ reason: 'max_output_tokens' });
    expect(answer.output_text).not.toBe('');
    let text = '';
    const types: string[] = [];
    for await (const event of await client.responses.create({ ...asked, stream: true })) {
      types.push(event.type);
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    expect(text).toBe(answer.output_text);
    expect(types[0]).toBe('response.created');
    expect(types.at(-1)).toBe('response.incomplete');
  });

  test('gets embeddings and models', async () => {
    const { data } = await client.embeddings.create({ model: 'vectors', input: ['a', 'abc'] });
    expect(data.map(({ embedding }) => embedding)).toEqual([
      [1, 0.5],
      [3, 0.5],
    ]);
    const models = await client.models.list();
    expect(models.data.map(({ id }) => id)).toEqual(['small', 'vectors']);
    expect((await client.models.retrieve('small')).owned_by).toBe('shardwise');
  });

  test('gets several texts, which the same seed gives again', async () => {
    const asked = { model: 'small', prompt: 'Once', max_tokens: 12, n: 3, seed: 4 };
    const [first, second] = [
      await client.completions.create(asked),
      await client.completions.create(asked),
    ];
    expect(first.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(new Set(first.choices.map(({ text }) => text)).size).toBe(3);
    expect(second.choices).toEqual(first.choices);
  });

  test('gets no stop text', async () => {
    const whole = await textOf('Once', 30);
    const stop = whole.slice(6, 8);
    const answer = await client.completions.create({
      model: 'small',
      prompt: 'Once',
      max_tokens: 30,
      temperature: 0,
      stop,
    });
    expect(answer.choices[0]?.text).toBe(whole.slice(0, whole.indexOf(stop)));
    expect(answer.choices[0]?.finish_reason).toBe('stop');
  });
});

describe('What is wrong gets the status of HTTP for it', () => {
  const asked = { model: 'small', prompt: 'Once', max_tokens: 2 };
  const wrong: readonly (readonly [string, number, string, object])[] = [
    ['a model that is not there', 404, "There is no model 'large'", { ...asked, model: 'large' }],
    ['a model that makes embeddings', 400, 'and no text', { ...asked, model: 'vectors' }],
    [
      'a prompt beyond the context',
      400,
      'a model with 256 positions',
      { ...asked, prompt: 'a'.repeat(300) },
    ],
    ['k above the vocabulary', 400, 'a vocabulary of 260 tokens', { ...asked, top_k: 300 }],
    ['a field that is not known', 400, 'max_new_tokens', { ...asked, max_new_tokens: 3 }],
    [
      'a field of none of its types',
      400,
      'stop: expected string, received number; or expected array, received number',
      { ...asked, stop: 7 },
    ],
    ['a number that is none', 400, 'temperature', { ...asked, temperature: 'hot' }],
    ['too many texts', 400, 'n: at most 16', { ...asked, n: 17 }],
    ['a token that is not there', 400, 'the token 260', { ...asked, prompt: [260] }],
  ];

  test.each(wrong)('%s', async (_, status, message, body) => {
    const response = await post(JSON.stringify(body));
    expect(response.status).toBe(status);
    const told: unknown = await response.json();
    expect(told).toMatchObject({ error: { message: expect.stringContaining(message) as string } });
  });

  test('errors name the fields that clients know', async () => {
    const errorOf = async (body: object): Promise<unknown> =>
      ((await (await post(JSON.stringify({ ...asked, ...body }))).json()) as { error: unknown })
        .error;
    expect(await errorOf({ top_k: 300 })).toMatchObject({
      message: expect.stringContaining('top_k: 300') as string,
      param: 'top_k',
    });
    expect(await errorOf({ max_tokens: 254 })).toEqual({
      message: expect.stringMatching(/Give max_tokens of at most 252$/) as string,
      type: 'invalid_request_error',
      param: 'max_tokens',
      code: 'context_length_exceeded',
    });
    expect(await errorOf({ prompt: 'a'.repeat(300), stream: true })).toMatchObject({
      code: 'context_length_exceeded',
    });
  });

  test('no key, or another one', async () => {
    for (const authorization of ['', 'Bearer wrong', 'Basic secret', 'Bearer secret2']) {
      const response = await post(JSON.stringify(asked), { authorization });
      expect(response.status).toBe(401);
      expect(response.headers.get('www-authenticate')).toBe('Bearer');
    }
    expect((await fetch(`${server.url}/v1/models`)).status).toBe(401);
    expect((await fetch(`${server.url}/metrics`)).status).toBe(401);
  });

  test('a body that is not JSON, not UTF-8, too long, or empty', async () => {
    expect((await post('{"model":')).status).toBe(400);
    expect((await post('')).status).toBe(400);
    const bytes = new TextEncoder().encode(JSON.stringify({ ...asked, prompt: 'x' }));
    const invalid = bytes.map((byte) => (byte === 120 ? 0xff : byte));
    expect((await post(invalid)).status).toBe(400);
    expect((await post('['.repeat(15_000))).status).toBe(400);
    expect((await post(' '.repeat(30_000))).status).toBe(413);
  });

  test('a long body without its length', async () => {
    const status = await new Promise<number | undefined>((resolve, reject) => {
      const request = httpRequest(
        `${server.url}/v1/completions`,
        { method: 'POST', headers: { authorization: 'Bearer secret' } },
        (response) => {
          response.resume();
          resolve(response.statusCode);
        },
      );
      request.on('error', reject);
      for (let part = 0; part < 30; part++) request.write(' '.repeat(1000));
      request.end();
    });
    expect(status).toBe(413);
  });

  test('headers without an end', async () => {
    const { port, hostname } = new URL(server.url);
    const answer = await new Promise<string>((resolve) => {
      const socket = connect(Number(port), hostname, () => {
        socket.write('GET /health HTTP/1.1\r\nhost: a\r\n');
        socket.write(`x: ${'y'.repeat(40_000)}\r\n`);
      });
      let text = '';
      socket.on('data', (data) => (text += String(data)));
      socket.on('error', () => resolve(text));
      socket.on('close', () => resolve(text));
    });
    expect(answer).toContain('431');
  });

  test('a path that is not there', async () => {
    const response = await fetch(`${server.url}/v2`);
    expect(response.status).toBe(404);
  });
});

test('A request too many gets 429, and says when to try again.', async () => {
  const own = new Engine(engineModel(), tokenizer, { maxSequences: 1 });
  const app = openAIApp({ models: [{ id: 'small', engine: own, embed: null }], maxWaiting: 1 });
  const ask = (): Promise<Response> =>
    Promise.resolve(
      app.fetch(
        new Request('http://localhost/v1/completions', {
          method: 'POST',
          body: JSON.stringify({
            model: 'small',
            prompt: 'Once',
            max_tokens: 40,
            ignore_eos: true,
          }),
        }),
      ),
    );
  const answers = await Promise.all([ask(), ask(), ask(), ask()]);
  const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
  expect(statuses[0]).toBe(200);
  expect(statuses.at(-1)).toBe(429);
  expect(answers.find(({ status }) => status === 429)?.headers.get('retry-after')).toBe('1');
  await own.dispose();
});

function engineModel(): GPT2LMHeadModel {
  const config = { vocabSize: 260, nPositions: 64, nEmbd: 16, nLayer: 1, nHead: 2 };
  return new GPT2LMHeadModel(config, { generator: new Generator(1) });
}

test('A client that goes ends its request.', async () => {
  const controller = new AbortController();
  const stream = await client.completions.create(
    { model: 'small', prompt: 'Once', max_tokens: 200, stream: true, n: 3 },
    { signal: controller.signal },
  );
  await expect(
    (async () => {
      for await (const _ of stream) controller.abort();
    })(),
  ).resolves.toBeUndefined();
  await engine.drain();
  expect(engine.statistics).toMatchObject({ running: 0, waiting: 0, usedBlocks: 0 });
});

test('A reader that reads nothing costs nothing, and is cut off.', async () => {
  const own = new Engine(engineModel(), tokenizer);
  const app = openAIApp({ models: [{ id: 'small', engine: own, embed: null }], stalledMs: 50 });
  const body = { model: 'small', prompt: 'Once', max_tokens: 50, stream: true, ignore_eos: true };
  const response = await app.fetch(
    new Request('http://localhost/v1/completions', { method: 'POST', body: JSON.stringify(body) }),
  );
  const reader = response.body?.getReader() ?? expect.fail();
  await reader.read();
  await new Promise((resolve) => setTimeout(resolve, 400));
  await expect(
    (async () => {
      for (let read = 0; read < 60; read++) if ((await reader.read()).done) return;
    })(),
  ).rejects.toThrow('The client reads nothing.');
  await own.dispose();
});

test('Metrics have the names that dashboards of vLLM read.', async () => {
  const response = await fetch(`${server.url}/metrics`, {
    headers: { authorization: 'Bearer secret' },
  });
  const text = await response.text();
  expect(text).toMatch(/^vllm:generation_tokens_total\{model_name="small"\} [1-9]\d*$/m);
  expect(text).toMatch(/^vllm:num_requests_running\{model_name="small"\} 0$/m);
  expect(text).toMatch(/^shardwise:responses_total\{status="200"\} [1-9]\d*$/m);
});

test('A server that closes answers what has begun, and refuses the rest.', async () => {
  const own = new Engine(engineModel(), tokenizer);
  const app = openAIApp({ models: [{ id: 'small', engine: own, embed: null }] });
  const closing = await listen(app, { port: 0 });
  expect((await fetch(`${closing.url}/health`)).status).toBe(200);
  const ask = (): Promise<Response> =>
    fetch(`${closing.url}/v1/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'small', prompt: 'Once', max_tokens: 30, ignore_eos: true }),
    });
  const begun = ask();
  while (own.statistics.requests === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const closed = closing.close();
  const health = await app.fetch(new Request('http://localhost/health'));
  expect(health.status).toBe(503);
  const answer: unknown = await (await begun).json();
  expect(answer).toMatchObject({ usage: { completion_tokens: 30 } });
  await closed;
  await expect(ask()).rejects.toThrow();
  await own.dispose();
});

test('Embeddings beyond the limit get 429, and the others are answered.', async () => {
  const pending = Promise.withResolvers<void>();
  const slow: typeof embed = async (inputs) => {
    await pending.promise;
    return embed(inputs);
  };
  const app = openAIApp({ models: [{ id: 'vectors', engine: null, embed: slow }], maxWaiting: 2 });
  const ask = async (): Promise<Response> =>
    app.fetch(
      new Request('http://localhost/v1/embeddings', {
        method: 'POST',
        body: JSON.stringify({ model: 'vectors', input: 'a' }),
      }),
    );
  const all = [ask(), ask(), ask()];
  const refused = await Promise.race(all);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
  pending.resolve();
  const statuses = (await Promise.all(all)).map(({ status }) => status);
  expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 429]);
  expect((await ask()).status).toBe(200);
});
