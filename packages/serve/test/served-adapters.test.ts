import { Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { adapterFiles, addLora, GPT2LMHeadModel, stackAdapters } from '@shardwise/models';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { complete } from '../src/engine/complete.ts';
import { Engine } from '../src/engine/engine.ts';
import { type OpenAIApp, openAIApp } from '../src/http/openai-app.ts';
import { useCpu } from './models.ts';

let engine: Engine;
let app: OpenAIApp;

function model(): GPT2LMHeadModel {
  const config = { vocabSize: 260, nPositions: 256, nEmbd: 16, nLayer: 1, nHead: 2 };
  return new GPT2LMHeadModel({ ...config, initializerRange: 0.5 }, { generator: new Generator(5) });
}

beforeAll(async () => {
  await useCpu();
  const adapted = addLora(model(), { rank: 2, targetModules: ['c_attn'] });
  const { config, tensors } = await adapterFiles(adapted);
  const served = model();
  const adapters = await stackAdapters(served, { sql: { config, tensors } });
  engine = new Engine(served, byteTokenizer(), { adapters });
  app = openAIApp({
    models: [
      { id: 'small', engine, embed: null },
      { id: 'sql', engine, embed: null, adapter: 'sql' },
    ],
  });
});

async function post(body: unknown): Promise<Response> {
  return app.fetch(
    new Request('http://localhost/v1/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  );
}

const answer = z.object({ model: z.string(), choices: z.array(z.object({ text: z.string() })) });

test('A request names an adapter as its model, and another name is an error with status 404.', async () => {
  const body = { model: 'sql', prompt: 'Once upon a time', max_tokens: 8, temperature: 0 };
  const response: unknown = await (await post(body)).json();
  const { choices } = answer.parse(response);
  const request = { prompt: body.prompt, maxNewTokens: 8, temperature: 0, adapter: 'sql' };
  const [expected] = await complete(engine.generate(request));
  expect(choices.map(({ text }) => text)).toEqual([expected?.text]);
  const missing = await post({ ...body, model: 'poems' });
  expect(missing.status).toBe(404);
  expect(await missing.text()).toContain("There is no model 'poems'. There are: small, sql.");
});

test('An application with an adapter that its engine does not have is refused.', () => {
  const models = [{ id: 'poems', engine, embed: null, adapter: 'poems' }];
  expect(() => openAIApp({ models })).toThrow('an engine with the adapters sql');
});

test('An engine is counted once, whatever adapters it has.', async () => {
  const metrics = await (await app.fetch(new Request('http://localhost/metrics'))).text();
  expect(metrics).toContain('vllm:num_preemptions_total{model_name="small"}');
  expect(metrics).not.toContain('model_name="sql"');
});

test('A request with use_beam_search gets as many beams as texts.', async () => {
  const body = { model: 'small', prompt: 'Once', max_tokens: 6, n: 3, use_beam_search: true };
  const response: unknown = await (await post(body)).json();
  const { choices } = answer.parse(response);
  const texts = await complete(
    engine.generate({ prompt: 'Once', maxNewTokens: 6, numBeams: 3, samples: 3 }),
  );
  expect(choices.map(({ text }) => text)).toEqual(texts.map(({ text }) => text));
});
