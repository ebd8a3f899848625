import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { fromData, Generator, noGrad } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { saveTokenizer } from '@shardwise/data/node';
import {
  BertForMaskedLM,
  BertModel,
  generate,
  GPT2LMHeadModel,
  sentenceEmbeddings,
} from '@shardwise/models';
import { savePretrained } from '@shardwise/models/node';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { saveCheckpoint } from '../src/checkpoint/save/save-checkpoint.ts';
import { runCli } from '../src/cli/run-cli.ts';
import type { ServeOptions } from '../src/serve/serve-options.ts';
import { usualServing } from './serve-options.ts';
import { type Serving, startServing } from '../src/serve/start-serving.ts';
import { Command } from './command.ts';

const tokenizer = byteTokenizer();
const encoderConfig = {
  vocabSize: 260,
  maxPositionEmbeddings: 64,
  hiddenSize: 16,
  intermediateSize: 24,
  numHiddenLayers: 2,
  numAttentionHeads: 2,
  initializerRange: 0.5,
};
const prompt = 'Once upon';
/** Nine texts are a pass of eight and one of one. */
const texts = Array.from({ length: 9 }, (_, i) => 'text '.repeat(i + 1));
/** A random model may end a text early. */
const greedy = { model: 'language', temperature: 0, ignore_eos: true, prompt };

let root = '';
let expectedText = '';
/** Of each text: the mean of its tokens, and its first token. */
const expectedVectors: { readonly mean: number[]; readonly first: number[] }[] = [];

beforeAll(async () => {
  setRank({ device: await cpu() });
  root = await mkdtemp(join(tmpdir(), 'shardwise-serve-'));
  const generator = new Generator(3);
  const sizes = { vocabSize: 260, nPositions: 2048, nEmbd: 16, nLayer: 2, nHead: 2 };
  const language = new GPT2LMHeadModel({ ...sizes, initializerRange: 0.5 }, { generator });
  const encoder = new BertModel(encoderConfig, { generator }).eval();
  const masked = new BertForMaskedLM(encoderConfig, { generator });
  for (const [name, model] of Object.entries({ language, encoder, masked, mute: language })) {
    await savePretrained(model, join(root, name));
    if (name !== 'mute') await saveTokenizer(tokenizer, join(root, name));
  }
  const golden = join(import.meta.dirname, '../../models/test/golden/gguf.json');
  const { file } = z.object({ file: z.string() }).parse(JSON.parse(await readFile(golden, 'utf8')));
  await writeFile(join(root, 'tiny.gguf'), Buffer.from(file, 'base64'));
  const { inputIds } = tokenizer.encode(prompt);
  const [own = []] = await generate(language, [inputIds], { maxNewTokens: 6 });
  expectedText = tokenizer.decode(own.slice(inputIds.length));
  for (const text of texts) {
    const row = tokenizer.encode(text).inputIds;
    const hidden = noGrad(() =>
      encoder.forward(fromData(Int32Array.from(row), [1, row.length], 'i32')),
    );
    expectedVectors.push({
      mean: Array.from(await sentenceEmbeddings(hidden).data(), Number),
      first: Array.from(await hidden.slice(1, 0, 1).data(), Number),
    });
  }
});

afterAll(() => rm(root, { recursive: true }));

function post(url: string, body: object, key?: string): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify(body),
  });
}

describe('the process of shardwise serve', () => {
  const started: Command[] = [];
  afterEach(async () => {
    for (const command of started.splice(0)) {
      command.kill('SIGKILL');
      await command.ended();
    }
  });
  /** Starts the command, and returns it with its address when it listens. */
  async function serve(...args: readonly string[]): Promise<{ command: Command; url: string }> {
    const command = new Command(['serve', 'language', '--port', '0', ...args], { cwd: root });
    started.push(command);
    const [, url = ''] = await command.says(/ at (http:\S+)\/v1: /);
    return { command, url };
  }

  it('says what listens where, and answers what it has begun after SIGTERM: exit code 0', async () => {
    const { command, url } = await serve('--cache-tokens', '1024');
    expect(command.stdout).toBe(
      `Serving language (GPT2LMHeadModel) at ${url}/v1: a context of 2048 tokens, 64 blocks of 16 tokens (260 KiB)\n`,
    );
    const long = { ...greedy, max_tokens: 80, stream: true };
    const response = await post(`${url}/v1/completions`, long);
    command.kill('SIGTERM');
    await command.says(/^Ending: texts of 1 sequences are still made, for at most 30s\.$/m);
    await expect(fetch(`${url}/health`)).rejects.toThrow('fetch failed');
    expect((await response.text()).endsWith('data: [DONE]\n\n')).toBe(true);
    expect(await command.ended(), command.output).toBe(0);
    expect(command.stderr).toBe('');
  });
});

describe('a server of a folder', () => {
  let serving: Serving | undefined;
  afterEach(async () => {
    await serving?.server.close(0);
    await serving?.dispose();
  });
  /** Serves a model of the folder of tests, and returns the address of the interface. */
  async function serve(model: string, options: Partial<ServeOptions> = {}): Promise<string> {
    serving = await startServing({
      model: join(root, model),
      ...usualServing,
      ...options,
    });
    return `${serving.server.url}/v1`;
  }

  it('refuses threads of a device that has none', async () => {
    await expect(serve('language', { threads: 2, device: 'wasm' })).rejects.toThrow(
      'the device wasm, which has no threads',
    );
  });

  it('makes the texts of generate(), also of chats', async () => {
    const url = await serve('language');
    const response = await post(`${url}/completions`, { ...greedy, max_tokens: 6 });
    expect(await response.json()).toMatchObject({ choices: [{ text: expectedText }] });
    const { prompt: _, ...rest } = greedy;
    const messages = [{ role: 'user', content: 'Hello' }];
    const chat = await post(`${url}/chat/completions`, { ...rest, messages, max_tokens: 4 });
    expect(await chat.json()).toMatchObject({
      choices: [{ finish_reason: 'length' }],
      usage: { completion_tokens: 4 },
    });
  });

  it('makes the same texts with tokens that n-grams propose', async () => {
    const url = await serve('language', { speculativeTokens: 3 });
    const response = await post(`${url}/completions`, { ...greedy, max_tokens: 6 });
    expect(await response.json()).toMatchObject({ choices: [{ text: expectedText }] });
    await serving?.server.close(0);
    await serving?.dispose();
    await expect(serve('language', { speculativeTokens: 65 })).rejects.toThrow('from 1 to 64');
  });

  it('takes the weights of a run whose checkpoints it follows, and says which', async () => {
    const checkpoints = join(root, 'run', 'checkpoints');
    const sizes = { vocabSize: 260, nPositions: 2048, nEmbd: 16, nLayer: 2, nHead: 2 };
    const trained = new GPT2LMHeadModel(
      { ...sizes, initializerRange: 0.5 },
      { generator: new Generator(4) },
    );
    await saveCheckpoint(checkpoints, { step: 7, model: trained });
    const place = join(root, 'run');
    const say = vi.spyOn(console, 'log').mockReturnValue();
    const url = await serve('language', {
      reload: { place, everyMs: 60_000, inFlight: 'recompute' },
    });
    expect(say.mock.calls.flat()).toEqual([
      expect.stringMatching(/^The weights are those of .*step-000007 now$/),
    ]);
    say.mockRestore();
    const body = { ...greedy, max_tokens: 6 };
    const answer = await (await post(`${url}/completions`, body)).json();
    expect(answer).toMatchObject({ system_fingerprint: 'step-000007' });
    expect(answer).not.toMatchObject({ choices: [{ text: expectedText }] });
    const streamed = await post(`${url}/completions`, { ...body, stream: true });
    expect(await streamed.text()).toContain('"system_fingerprint":"step-000007"');
    const metrics = await fetch(new URL('/metrics', url));
    expect(await metrics.text()).toContain(
      'shardwise:weights_info{model_name="language",version="step-000007"} 1',
    );
  });

  it('refuses to follow checkpoints for a model that makes embeddings', async () => {
    const reload = { place: root, everyMs: 1_000, inFlight: 'finish' } as const;
    await expect(serve('encoder', { reload })).rejects.toThrow(
      'a BertModel, which makes embeddings',
    );
  });

  it.each([false, true])(
    'serves a GGUF file with the tokenizer that is in it (quantized: %s)',
    async (quantized) => {
      const url = await serve('tiny.gguf', { quantized });
      expect(serving?.summary).toMatch(/^Serving tiny \(LlamaForCausalLM\) at /);
      const body = { ...greedy, model: 'tiny', max_tokens: 3 };
      const response = await post(`${url}/completions`, body);
      expect(await response.json()).toMatchObject({ usage: { completion_tokens: 3 } });
    },
  );

  it.each(['bf16', 'f16'] as const)('keeps parameters in %s', async (dtype) => {
    const url = await serve('language', { dtype });
    const response = await post(`${url}/completions`, { ...greedy, max_tokens: 3 });
    expect(await response.json()).toMatchObject({ usage: { completion_tokens: 3 } });
  });

  const vectorsSchema = z.object({ data: z.array(z.object({ embedding: z.array(z.number()) })) });
  async function expectVectors(url: string, kind: 'mean' | 'first'): Promise<void> {
    const response = await post(`${url}/embeddings`, { model: 'vectors', input: texts });
    const { data } = vectorsSchema.parse(await response.json());
    expect(data).toHaveLength(texts.length);
    for (const [row, { embedding }] of data.entries()) {
      for (const [i, value] of (expectedVectors[row]?.[kind] ?? []).entries()) {
        expect(embedding[i], `${texts[row]}: ${i}`).toBeCloseTo(value, 4);
      }
    }
  }

  it('makes the vectors of an encoder: the means of tokens, with length 1', async () => {
    const url = await serve('encoder', { name: 'vectors' });
    expect(serving?.summary).toBe(
      `Serving vectors (BertModel) at ${url}: embeddings of 16 numbers, texts of up to 64 tokens`,
    );
    await expectVectors(url, 'mean');
    const long = await post(`${url}/embeddings`, { model: 'vectors', input: 'x'.repeat(65) });
    expect([long.status, await long.text()]).toEqual([400, expect.stringContaining('65 tokens')]);
    const unknown = await post(`${url}/embeddings`, { model: 'vectors', input: [260] });
    expect([unknown.status, await unknown.text()]).toEqual([
      400,
      expect.stringContaining('the token 260'),
    ]);
  });

  it('makes the vectors that the modules of sentence-transformers describe', async () => {
    await writeModules('Transformer', 'Pooling');
    await savePooling({ pooling_mode_cls_token: true, pooling_mode_mean_tokens: false });
    await writeFile(
      join(root, 'encoder', 'sentence_bert_config.json'),
      JSON.stringify({ max_seq_length: 48 }),
    );
    const url = await serve('encoder', { name: 'vectors' });
    await expectVectors(url, 'first');
    // Python would cut the text off without a word.
    const long = await post(`${url}/embeddings`, { model: 'vectors', input: 'x'.repeat(49) });
    expect([long.status, await long.text()]).toEqual([
      400,
      expect.stringContaining('49 tokens, and not 1 to 48'),
    ]);
    await rm(join(root, 'encoder', 'modules.json'));
  });

  it('asks for the key of the environment, also at an address of all machines', async () => {
    vi.stubEnv('SHARDWISE_API_KEY', 'of-the-environment');
    const url = (await serve('language', { host: '0.0.0.0' })).replace('0.0.0.0', '127.0.0.1');
    vi.unstubAllEnvs();
    const body = { ...greedy, max_tokens: 1 };
    expect((await post(`${url}/completions`, body)).status).toBe(401);
    expect((await post(`${url}/completions`, body, 'wrong')).status).toBe(401);
    expect((await post(`${url}/completions`, body, 'of-the-environment')).status).toBe(200);
  });
});

async function writeModules(...names: readonly string[]): Promise<void> {
  const modules = names.map((name) => ({
    type: `sentence_transformers.models.${name}`,
    path: name === 'Pooling' ? '1_Pooling' : '',
  }));
  await writeFile(join(root, 'encoder', 'modules.json'), JSON.stringify(modules));
}

async function savePooling(config: object): Promise<void> {
  await mkdir(join(root, 'encoder', '1_Pooling'), { recursive: true });
  await writeFile(join(root, 'encoder', '1_Pooling', 'config.json'), JSON.stringify(config));
}

describe('shardwise serve refuses in one line, with exit code 2,', () => {
  async function refusal(...args: readonly string[]): Promise<string> {
    const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    try {
      expect(await runCli(['node', 'shardwise', 'serve', ...args])).toBe(2);
      return write.mock.calls.map(([text]) => String(text)).join('');
    } finally {
      write.mockRestore();
    }
  }

  it.each<readonly [what: string, args: readonly string[], message: RegExp]>([
    [
      'a folder that is not there',
      ['./nothing'],
      /^to serve \.\/nothing: no such folder or file\./,
    ],
    ['a model without a tokenizer', ['mute'], /mute\/tokenizer\.json: no such file\./],
    ['a file of weights', ['mute/model.safetensors'], /: a file that is not of GGUF\./],
    ['a model with another head', ['masked'], /BertForMaskedLM, which makes neither texts nor/],
    [
      'an address of other machines without a key',
      ['language', '--host', '0.0.0.0'],
      /^a server at 0\.0\.0\.0 without an API key: .*SHARDWISE_API_KEY, .* or say --without-api-key$/,
    ],
    ['a key with a space', ['language', '--api-key', 'a b'], /^a server with an API key: a key/],
    [
      'a key beside none',
      ['language', '--api-key', 'a', '--without-api-key'],
      /: options that exclude each other\./,
    ],
    [
      'blocks that do not fit the memory',
      ['language', '--cache-tokens', '900000000', '--block-size', '1000000'],
      /^a cache of 900 blocks of 1000000 tokens: they do not fit the memory beside the model: /,
    ],
    [
      'a cache beyond all counts',
      ['language', '--cache-tokens', '90000000000'],
      /'90000000000' is invalid\. It must be at most 999999999/,
    ],
    ['a cache without a block', ['language', '--cache-tokens', '8'], /, of which none fits\./],
    [
      'a way of taking weights without a place',
      ['language', '--reload-interval', '3'],
      /^--reload-interval or --reload-requests: no --reload\./,
    ],
    ['blocks of a folder', ['language', '--quantized'], /^--quantized with \S+: no GGUF file, /],
    [
      'blocks that ranks would divide',
      ['tiny.gguf', '--quantized', '--nproc', '2', '--tensor-parallel-size', '2'],
      /^--quantized with --tensor-parallel-size 2: weights in the blocks of a file, which ranks/,
    ],
    [
      'blocks that would get the weights of a training',
      ['tiny.gguf', '--quantized', '--reload', 'runs'],
      /^--quantized with --reload: weights in the blocks of a file, into which/,
    ],
    ['a port that is none', ['language', '--port', '65536'], /whole number from 0 to 65535/],
    [
      'a host that is no address of this machine',
      ['language', '--host', '192.0.2.1', '--without-api-key'],
      /^to listen at 192\.0\.2\.1, port 8000: .*EADDRNOTAVAIL/,
    ],
  ])('%s', async (_, [model = '', ...args], message) => {
    const place = model.startsWith('.') ? model : join(root, model);
    const text = await refusal(place, ...args);
    expect(text.trimEnd()).toMatch(message);
    expect(text.match(/\n/g)).toHaveLength(1);
  });

  it('a port that another program uses', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const address = other.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const text = await refusal(join(root, 'language'), '--port', String(port));
    expect(text).toMatch(
      /^to listen at 127\.0\.0\.1, port \d+: a port that another program uses\./,
    );
    other.close();
  });

  it('vectors that are made in a way that is not known here', async () => {
    await writeModules('Transformer', 'Pooling', 'Dense');
    expect(await refusal(join(root, 'encoder'))).toMatch(
      /^embeddings by the model of .*encoder: a module "Dense"\./,
    );
    await writeModules('Transformer', 'Pooling');
    await savePooling({ pooling_mode_max_tokens: true });
    expect(await refusal(join(root, 'encoder'))).toMatch(/: the pooling pooling_mode_max_tokens\./);
    await rm(join(root, 'encoder', 'modules.json'));
  });
});
