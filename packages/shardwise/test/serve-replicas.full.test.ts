import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpu } from '@shardwise/backend-cpu';
import { setRank } from '@shardwise/core';
import { Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { saveTokenizer } from '@shardwise/data/node';
import { addLora, generate, GPT2LMHeadModel } from '@shardwise/models';
import { saveAdapter, savePretrained } from '@shardwise/models/node';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { Command } from './command.ts';

const answerSchema = z.object({ choices: z.array(z.object({ text: z.string() })) });
const prompt = 'Once upon';

let root = '';
let expectedText = '';
const started: Command[] = [];

beforeAll(async () => {
  setRank({ device: await cpu({ batchInvariant: true }) });
  root = await mkdtemp(join(tmpdir(), 'shardwise-replicas-'));
  const sizes = { vocabSize: 260, nPositions: 2048, nEmbd: 16, nLayer: 2, nHead: 2 };
  const model = new GPT2LMHeadModel(
    { ...sizes, initializerRange: 0.5 },
    { generator: new Generator(3) },
  );
  const tokenizer = byteTokenizer();
  await savePretrained(model, join(root, 'language'));
  await saveTokenizer(tokenizer, join(root, 'language'));
  const { inputIds } = tokenizer.encode(prompt);
  const [own = []] = await generate(model, [inputIds], { maxNewTokens: 6 });
  expectedText = tokenizer.decode(own.slice(inputIds.length));
  await saveAdapter(addLora(model, { rank: 2, targetModules: 'all-linear' }), join(root, 'own'));
});
afterEach(async () => {
  for (const command of started.splice(0)) {
    command.kill('SIGKILL');
    await command.ended();
  }
});
afterAll(() => rm(root, { recursive: true }));

async function serve(...args: readonly string[]): Promise<{ command: Command; url: string }> {
  const all = ['serve', 'language', '--port', '0', '--cache-tokens', '8192', ...args];
  const command = new Command(all, { cwd: root });
  started.push(command);
  const [, url = ''] = await command.says(/ at (http:\S+)\/v1: /);
  return { command, url };
}

function post(url: string, rest: object = {}): Promise<Response> {
  const body = { model: 'language', prompt, temperature: 0, ignore_eos: true, max_tokens: 6 };
  return fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, ...rest }),
  });
}

async function textOf(response: Response): Promise<string> {
  const [choice] = answerSchema.parse(await response.json()).choices;
  return choice?.text ?? '';
}

/** The processes of the replicas. */
async function replicasOf({ pid }: Command): Promise<readonly number[]> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return children.trim().split(' ').map(Number);
}

it.each([
  ['what takes longer than --drain-timeout', '0.05'],
  ['all at a second signal', '600'],
])('shardwise serve cuts off %s, and says so: exit code 1', async (_, drainTimeout) => {
  const { command, url } = await serve('--drain-timeout', drainTimeout);
  const whole = post(url, { max_tokens: 2000 }).catch((error: unknown) => error);
  const response = await post(url, { max_tokens: 2000, stream: true });
  await vi.waitFor(async () => {
    const metrics = await fetch(`${url}/metrics`);
    expect(await metrics.text()).toMatch(/^vllm:num_requests_running\S* 2$/m);
  }, 10_000);
  command.kill('SIGINT');
  if (drainTimeout === '600') {
    await command.says(/^Ending: texts of 2 sequences are still made, for at most 10m 00s\.$/m);
    // Signals that come at once count as one, because npm passes on what the terminal sends, too.
    await sleep(400);
    command.kill('SIGINT');
  }
  expect(await whole).toBeInstanceOf(TypeError);
  await expect(response.text()).rejects.toThrow('terminated');
  expect(await command.ended(), command.output).toBe(1);
  expect(command.stderr).toBe('Ended before all requests were answered.\n');
});

describe.runIf(process.platform === 'linux')(
  'shardwise serve on two ranks',
  { timeout: 300_000 },
  () => {
    it('divides requests, starts a replica again that is killed, and ends with exit code 0', async () => {
      const { command, url } = await serve('--nproc', '2', '--on-rank-failure', 'retry');
      expect(command.stdout).toMatch(/^Serving language \(GPT2LMHeadModel\) .*; 2 replicas\n$/);
      const replicas = await replicasOf(command);
      expect(replicas).toHaveLength(2);
      const texts = await Promise.all(
        [post(url), post(url)].map(async (each) => textOf(await each)),
      );
      expect(texts).toEqual([expectedText, expectedText]);
      const metrics = await (await fetch(`${url}/metrics`)).text();
      for (const replica of [0, 1]) {
        expect(metrics).toMatch(
          new RegExp(`^vllm:generation_tokens_total\\{replica="${replica}",.*\\} 7$`, 'm'),
        );
      }
      // Two conversations of 200 bytes, of which each is a token. The next turns come in the other order.
      const [cats, dogs] = ['cats '.repeat(40), 'dogs '.repeat(40)];
      for (const prompts of [
        [cats, dogs],
        [`${dogs}And?`, `${cats}And?`],
      ]) {
        const answers = prompts.map((each) => post(url, { prompt: each, max_tokens: 64 }));
        for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
      }
      const hits = [
        ...(await (await fetch(`${url}/metrics`)).text()).matchAll(
          /^vllm:prefix_cache_hits_total\S* (\d+)$/gm,
        ),
      ].map(([, tokens]) => Number(tokens));
      // Each finds its 12 full blocks of 16 tokens.
      expect(hits.reduce((sum, tokens) => sum + tokens, 0)).toBe(2 * 192);
      const [first = 0] = replicas;
      const answering = post(url, { max_tokens: 400 });
      process.kill(first, 'SIGKILL');
      expect((await answering).status).toBe(200);
      await command.says(/^Replica 0 was lost \(SIGKILL\), and starts again$/m);
      await command.says(/^Replica 0 answers again$/m);
      expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ listening: 2 });
      const stream = await post(url, { max_tokens: 200, stream: true });
      command.kill('SIGTERM');
      expect((await stream.text()).endsWith('data: [DONE]\n\n')).toBe(true);
      expect(await command.ended(), command.output).toBe(0);
      for (const pid of replicas) expect(() => process.kill(pid, 0)).toThrow();
    });

    it('divides the model, whose texts are those of one rank, and starts all its ranks again', async () => {
      const parallel = ['--nproc', '2', '--tensor-parallel-size', '2'];
      const { command, url } = await serve(...parallel, '--lora-modules', 'own=own');
      expect(command.stdout).toMatch(/; 1 replica divided over 2 ranks\n$/);
      expect(await textOf(await post(url))).toBe(expectedText);
      // An adapter that has learned nothing changes nothing.
      expect(await textOf(await post(url, { model: 'own' }))).toBe(expectedText);
      const [replica = 0] = await replicasOf(command);
      const answering = post(url, { max_tokens: 400 });
      await expect
        .poll(async () => (await fetch(`${url}/metrics`)).text(), { timeout: 20_000 })
        .toMatch(/^vllm:num_requests_running\S* 1$/m);
      process.kill(replica, 'SIGKILL');
      expect((await answering).status).toBe(502);
      await command.says(/^Replica 0 answers again$/m);
      expect(await textOf(await post(url))).toBe(expectedText);
      command.kill('SIGTERM');
      expect(await command.ended(), command.output).toBe(0);
    });

    it.each([
      [
        'ranks that make no whole groups',
        ['--nproc', '3', '--tensor-parallel-size', '2'],
        'multiple of 2',
      ],
      ['a group of more ranks than there are', ['--tensor-parallel-size', '2'], 'multiple of 2'],
      ['a model that does not fit', ['--nproc', '2', '--cache-tokens', '8'], 'to start replica'],
      [
        'other weights for parts of a model',
        ['--nproc', '2', '--tensor-parallel-size', '2', '--reload', 'run'],
        'would have to take new weights together',
      ],
    ])('refuses %s: exit code 2', async (_, args, message) => {
      const command = new Command(['serve', 'language', '--port', '0', ...args], { cwd: root });
      started.push(command);
      expect(await command.ended()).toBe(2);
      expect(command.stderr).toContain(message);
    });
  },
);
