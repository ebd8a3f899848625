import { request as httpRequest } from 'node:http';
import { Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Engine } from '../src/engine/engine.ts';
import { listen, type ListeningServer } from '../src/http/listen.ts';
import { openAIApp } from '../src/http/openai-app.ts';
import { useCpu } from './models.ts';

let engine: Engine;
let mute: Engine;
let server: ListeningServer;
const errors: unknown[] = [];
const embedded: number[] = [];

beforeAll(async () => {
  await useCpu();
  const model = tiny();
  engine = new Engine(model, byteTokenizer());
  mute = new Engine(model);
  const app = openAIApp({
    models: [
      { id: 'small', engine, embed: null },
      { id: 'mute', engine: mute, embed: null },
      {
        id: 'vectors',
        engine: null,
        embed: async (inputs) => {
          embedded.push(inputs.length);
          return { vectors: inputs.map(() => Float32Array.of(1)), tokens: 1 };
        },
      },
    ],
    onError: (error) => errors.push(error),
    maxWaiting: 20,
  });
  server = await listen(app, { port: 0 });
});

afterAll(async () => {
  await server.close();
  await Promise.all([engine.dispose(), mute.dispose()]);
  expect(errors).toEqual([]);
});

function tiny(): GPT2LMHeadModel {
  const config = { vocabSize: 260, nPositions: 2048, nEmbd: 16, nLayer: 1, nHead: 2 };
  return new GPT2LMHeadModel(config, { generator: new Generator(5) });
}

function post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`${server.url}/v1/${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });
}

const idle = { running: 0, waiting: 0, usedBlocks: 0 };
const long = { model: 'small', prompt: 'Once', max_tokens: 2000, ignore_eos: true };

test('Without another host, a server listens where other machines cannot reach it.', () => {
  expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
});

test('A name that somebody lets lead to this machine gets no answer from a server without keys.', async () => {
  const statusFor = (host: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const { port } = new URL(server.url);
      const sent = httpRequest({ port, path: '/v1/models', headers: { host } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      sent.on('error', reject).end();
    });
  for (const host of ['localhost:8000', '127.0.0.1', '[::1]:8000', 'chat.localhost']) {
    expect(await statusFor(host), host).toBe(200);
  }
  for (const host of ['rebound.example:8000', 'localhost.example', '127.0.0.1.example']) {
    expect(await statusFor(host), host).toBe(421);
  }
});

test('A page of another address gets no answer, and begins nothing.', async () => {
  const { requests } = engine.statistics;
  for (const site of ['cross-site', 'same-site']) {
    const response = await fetch(`${server.url}/v1/completions`, {
      method: 'POST',
      // A page may send this without asking the server first.
      headers: { 'content-type': 'text/plain', 'sec-fetch-site': site },
      body: JSON.stringify(long),
    });
    expect(response.status).toBe(403);
  }
  expect(engine.statistics.requests).toBe(requests);
  expect((await fetch(server.url)).status).toBe(404);
});

test('A client that goes ends its request, also if it waits for a whole text.', async () => {
  const controller = new AbortController();
  const asked = post('completions', long, controller.signal).catch((error: unknown) => error);
  await expect.poll(() => engine.statistics.running).toBe(1);
  const { steps } = engine.statistics;
  controller.abort();
  expect(await asked).toBeInstanceOf(DOMException);
  await expect.poll(() => engine.statistics).toMatchObject(idle);
  expect(engine.statistics.steps).toBeLessThan(steps + 1900);
});

test('A request of which one prompt is wrong begins none of the others.', async () => {
  const response = await post('completions', { ...long, prompt: ['Once', 'a'.repeat(3000)] });
  expect(response.status).toBe(400);
  expect(engine.statistics).toMatchObject(idle);
});

test('The prompts of one request count for the queue, and have a limit.', async () => {
  const asked = { model: 'small', max_tokens: 1 };
  const prompts = Array.from({ length: 15 }, () => 'a');
  const own = new Engine(tiny(), byteTokenizer());
  const app = openAIApp({ models: [{ id: 'small', engine: own, embed: null }], maxWaiting: 20 });
  const ask = async (): Promise<Response> => {
    const body = JSON.stringify({ ...asked, prompt: prompts });
    return app.fetch(new Request('http://localhost/v1/completions', { method: 'POST', body }));
  };
  const statuses = (await Promise.all([ask(), ask()])).map(({ status }) => status);
  expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 429]);
  await own.dispose();
  const many = await post('completions', { ...asked, prompt: [...prompts, ...prompts] });
  expect([many.status, await many.text()]).toEqual([400, expect.stringContaining('20 may wait')]);
  const flood = { ...asked, prompt: Array.from({ length: 3000 }, () => 'a') };
  expect((await post('completions', flood)).status).toBe(400);
  const vectors = { model: 'vectors', input: flood.prompt };
  expect((await post('embeddings', vectors)).status).toBe(400);
  expect(embedded).toEqual([]);
});

describe('What a model cannot do is an error with status 400', () => {
  const schema = { type: 'json_schema', json_schema: { name: 'a', schema: { type: 'null' } } };
  const messages = [{ role: 'user', content: 'Hello' }];
  test.each([
    ['more tokens than it has places', 'completions', { ...long, max_tokens: 2047 }, '2048'],
    ['a text without a tokenizer', 'completions', { model: 'mute', prompt: 'a' }, 'tokenizer'],
    ['a chat without a tokenizer', 'chat/completions', { model: 'mute', messages }, 'tokenizer'],
    ['a response without one', 'responses', { model: 'mute', input: 'a' }, 'tokenizer'],
    [
      'a form without a tokenizer',
      'completions',
      { model: 'mute', prompt: [1], response_format: schema },
      'tokenizer',
    ],
  ])('%s', async (_, path, body, message) => {
    const response = await post(path, body);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { message: expect.stringContaining(message), type: 'invalid_request_error' },
    });
  });

  test('but one without a tokenizer continues tokens', async () => {
    const response = await post('completions', { model: 'mute', prompt: [1, 2], max_tokens: 3 });
    expect(await response.json()).toMatchObject({ usage: { completion_tokens: 3 } });
  });
});

test('An error in the middle of a stream reaches the client, with what it says.', async () => {
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
  // No token is more than a part of this character.
  const body = { ...long, structured_outputs: { choice: ['é'] } };
  const stream = await client.completions.create({ ...body, stream: true });
  await expect(
    (async () => {
      for await (const _ of stream);
    })(),
  ).rejects.toThrow('no token of the model that may follow');
  expect(engine.statistics).toMatchObject(idle);
});
