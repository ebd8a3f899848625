import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Generator } from '@shardwise/core/extend';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import { Engine } from '@shardwise/serve';
import { listen, openAIApp } from '@shardwise/serve/node';
import { cpu, manualSeed, setRank } from 'shardwise';
import type { Bench, BenchResult } from '../bench.ts';
import { collectGarbage } from '../collect-garbage.ts';
import { residentBytes } from '../resident-bytes.ts';
import { countOf } from '../rounds.ts';
import { round } from '../summary.ts';
import { quickSizes } from './workloads.ts';

const VOCABULARY = 260;
const CONCURRENCY = 32;
const SECONDS = 600;
/** The rate of arrivals, as a share of what a full batch answers. */
const LOAD = 0.9;
/** So many requests measure what a full batch answers, for the first and for the second time. */
const MEASURED = 32;
/**
 * So many requests are open at most. On a machine that other programs make slower than it was measured, arrivals then wait, and
 * clients do not give up.
 */
const MOST_OPEN = 4 * CONCURRENCY;
/** One of so many clients goes when it has read some of its answer. */
const GOING = 10;
/** How long connections that nobody uses stay open. */
const IDLE_MS = 6000;
/** What the heap may have more in the end than after half the time. Requests that leave as much as 1 KiB behind would exceed it after some thousands. */
const HEAP_NOISE = 2 * 2 ** 20;

/** Bytes and sockets while nothing is answered. */
interface Resources {
  readonly deviceBytes: number;
  readonly heapBytes: number;
  readonly residentBytes: number;
  readonly sockets: number;
}

interface Request {
  readonly prompt: string;
  readonly maxTokens: number;
  readonly streams: boolean;
  readonly goes: boolean;
}

/** Serves for a long time by HTTP, and fails if something grows or is lost. */
export const serveSoak: Bench = {
  about: `a server at ${100 * LOAD} % of its load: fails if memory grows, or if anything is lost`,
  flags: { seconds: { type: 'string' }, threads: { type: 'string' } },
  run: async (values): Promise<BenchResult> => {
    const seconds = countOf(values, 'seconds', SECONDS);
    const device = await cpu({
      threads: countOf(values, 'threads', availableParallelism()),
      batchInvariant: true,
    });
    setRank({ device });
    manualSeed(0);
    const { context, width, layers, heads } = quickSizes;
    const sizes = { nPositions: context, nEmbd: width, nLayer: layers, nHead: heads };
    const model = new GPT2LMHeadModel({ vocabSize: VOCABULARY, ...sizes });
    // Half the tokens of a full batch have a place, so that sequences lose their blocks.
    const cacheTokens = (CONCURRENCY * context) / 2;
    const engine = new Engine(model, byteTokenizer(), { maxSequences: CONCURRENCY, cacheTokens });
    const errors: unknown[] = [];
    const app = openAIApp({
      models: [{ id: 'soak', engine, embed: null }],
      maxWaiting: 4096,
      onError: (error) => errors.push(error),
    });
    const server = await listen(app, { port: 0 });
    const requests = requestsOf(new Generator(1));
    const ask = (): Promise<'answered' | 'gone'> => answer(server.url, requests.next().value);
    const resources = async (): Promise<Resources> => {
      await engine.drain();
      await sleep(IDLE_MS);
      // What a first collection finds dead may hold others until its callbacks have run.
      for (let pass = 0; pass < 3; pass++) {
        collectGarbage();
        await sleep(50);
      }
      return {
        deviceBytes: device.usage?.().bytesInUse ?? 0,
        heapBytes: process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers,
        residentBytes: residentBytes('VmRSS'),
        sockets: process.getActiveResourcesInfo().filter((name) => name.includes('TCPSocket'))
          .length,
      };
    };
    // Programs are compiled before anything is measured. A server that compiles for long closes connections that wait.
    await ask();
    await Promise.all([ask(), ask(), ask()]);
    let perSecond = 0;
    for (let pass = 0; pass < 2; pass++) {
      const start = performance.now();
      await Promise.all(Array.from({ length: MEASURED }, ask));
      perSecond = (LOAD * MEASURED * 1000) / (performance.now() - start);
    }
    const arrivals = new Generator(2);
    // What is made once, such as code that is compiled when it is hot, is there after the first half.
    const first = await load(ask, perSecond, seconds / 2, arrivals);
    const before = await resources();
    const second = await load(ask, perSecond, seconds / 2, arrivals);
    const after = await resources();
    const counted = {
      answered: first.answered + second.answered,
      gone: first.gone + second.gone,
    };
    const { usedBlocks, running, waiting, preemptions } = engine.statistics;
    await server.close();
    await engine.dispose();
    const faults = [
      ...errors.map(String),
      ...(usedBlocks + running + waiting > 0 ? ['blocks or sequences are left'] : []),
      ...(after.deviceBytes > before.deviceBytes ? ['the memory of the device has grown'] : []),
      ...(after.heapBytes > before.heapBytes + HEAP_NOISE ? ['the heap has grown'] : []),
      ...(after.sockets > before.sockets ? ['sockets are open'] : []),
    ];
    const record = { seconds, perSecond: round(perSecond, 2), preemptions, ...counted };
    const result = { ...record, before, after, faults };
    if (faults.length > 0) throw new Error(`${faults.join('; ')}: ${JSON.stringify(result)}`);
    return {
      rows: [
        [`${seconds} s at ${record.perSecond} requests/s`, `${counted.answered} answered`],
        ['clients that went', String(counted.gone)],
        ['interruptions for want of blocks', String(preemptions)],
        ['the memory of the device', growth(before.deviceBytes, after.deviceBytes)],
        ['the heap', growth(before.heapBytes, after.heapBytes)],
        ['the process', growth(before.residentBytes, after.residentBytes)],
        ['open sockets', `${before.sockets}, ${after.sockets}`],
      ],
      record: result,
    };
  },
};

function growth(before: number, after: number): string {
  const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(2);
  return `${mebibytes(before)} MiB after half the time, ${mebibytes(after)} MiB in the end`;
}

function* requestsOf(generator: Generator): IterableIterator<Request, never> {
  const below = (most: number): number => Math.floor((generator.uniform(1, 0, 1)[0] ?? 0) * most);
  for (;;) {
    yield {
      // Some begin like others.
      prompt: 'Once upon a time, there was a rank. '.repeat(below(4)) + 'x'.repeat(1 + below(60)),
      maxTokens: 8 + below(160),
      streams: below(2) === 0,
      goes: below(GOING) === 0,
    };
  }
}

/** Sends requests as a Poisson process, and waits for all. */
async function load(
  ask: () => Promise<'answered' | 'gone'>,
  perSecond: number,
  seconds: number,
  generator: Generator,
): Promise<Readonly<Record<'answered' | 'gone', number>>> {
  const counts = { answered: 0, gone: 0 };
  const pending = new Set<Promise<void>>();
  const end = performance.now() + seconds * 1000;
  let due = performance.now();
  const failures: unknown[] = [];
  for (;;) {
    const [value = 0.5] = generator.uniform(1, 0, 1);
    due += (-Math.log(1 - value) / perSecond) * 1000;
    if (due > end || failures.length > 0) break;
    await sleep(Math.max(0, due - performance.now()));
    while (pending.size >= MOST_OPEN) await Promise.race(pending);
    due = Math.max(due, performance.now() - 1000);
    const own: Promise<void> = ask()
      .then((outcome) => void counts[outcome]++)
      .catch((cause: unknown) => void failures.push(cause))
      .finally(() => pending.delete(own));
    pending.add(own);
  }
  await Promise.all(pending);
  if (failures.length > 0) throw new AggregateError(failures, 'Requests failed');
  return counts;
}

/** Asks for a text, and checks that all of it comes. */
async function answer(
  url: string,
  { prompt, maxTokens, streams, goes }: Request,
): Promise<'answered' | 'gone'> {
  const abort = new AbortController();
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    body: JSON.stringify({
      model: 'soak',
      prompt,
      max_tokens: maxTokens,
      ignore_eos: true,
      ...(streams ? { stream: true, stream_options: { include_usage: true } } : {}),
    }),
    signal: abort.signal,
  });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  if (streams && goes) {
    await response.body?.getReader().read();
    abort.abort();
    return 'gone';
  }
  const text = await response.text();
  const [, tokens] = /"completion_tokens":(\d+)/.exec(text) ?? [];
  const isWhole = !streams || text.endsWith('data: [DONE]\n\n');
  if (Number(tokens) === maxTokens && isWhole) return 'answered';
  throw new Error(`a part of an answer is lost: ${tokens} of ${maxTokens} tokens`);
}
