import { setTimeout } from 'node:timers/promises';
import { Generator } from '@shardwise/core/extend';
import type { Engine } from '@shardwise/serve';
import { promptsOf, type Workload } from './workloads.ts';

/** That of an engine, if it is told none. */
const BLOCK_SIZE = 16;

/** How requests arrive. Those of a Poisson process ask for log-probabilities, to be compared with training. */
export type Arrivals =
  /** Each one when the one before has ended. */
  | { readonly kind: 'alone' }
  /** All at once, so that as many run as may. */
  | { readonly kind: 'rolling' }
  /** In batches: one begins when all requests of the batch before have ended. */
  | { readonly kind: 'static'; readonly batch: number }
  /** As a Poisson process. */
  | { readonly kind: 'poisson'; readonly perSecond: number };

/** A request that was answered. */
export interface Answer {
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
  readonly logProbabilities: readonly number[];
  /** Milliseconds from the arrival to the first token, and from each token to the next. */
  readonly firstMs: number;
  readonly gapsMs: readonly number[];
}

/** What answering a workload took. */
export interface Driven {
  readonly answers: readonly Answer[];
  readonly ms: number;
  /** The processor time of all threads. */
  readonly cpuMs: number;
  readonly steps: number;
  /** Tokens that steps computed of prompts, and behind them. */
  readonly prefilled: number;
  readonly decoded: number;
  /** The mean share of places without a token in the used blocks. */
  readonly waste: number;
}

/** Answers a workload. The requests of a workload are the same for all arrivals. */
export async function drive(
  engine: Engine,
  workload: Workload,
  arrivals: Arrivals,
  vocabulary: number,
): Promise<Driven> {
  const prompts = promptsOf(workload, vocabulary);
  const before = engine.statistics;
  const cpu = process.cpuUsage();
  const start = performance.now();
  const waste = new WasteMeter(engine);
  const answers: Answer[] = [];
  const answer = async (index: number): Promise<void> => {
    const [prompt = [], { generated = 1 } = {}] = [prompts[index], workload.lengths[index]];
    const asksMore = arrivals.kind === 'poisson';
    answers.push(await answerOf(engine, prompt, generated, index, { waste, asksMore }));
  };
  const all = prompts.map((_, index) => index);
  switch (arrivals.kind) {
    case 'alone':
      for (const index of all) await answer(index);
      break;
    case 'rolling':
      await Promise.all(all.map(answer));
      break;
    case 'static':
      for (let first = 0; first < all.length; first += arrivals.batch) {
        await Promise.all(all.slice(first, first + arrivals.batch).map(answer));
      }
      break;
    case 'poisson':
      await arrive(all, arrivals.perSecond, answer);
      break;
    default:
      arrivals satisfies never;
  }
  const ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  const after = engine.statistics;
  const generated = after.generatedTokens - before.generatedTokens;
  const computed = after.computedTokens - before.computedTokens;
  // The first token of a request is chosen by the last one of its prompt.
  const decoded = generated - all.length;
  return {
    answers,
    ms,
    cpuMs: (user + system) / 1000,
    steps: after.steps - before.steps,
    prefilled: computed - decoded,
    decoded,
    waste: waste.mean,
  };
}

/** The number of generated tokens. */
export function generatedBy({ answers }: Driven): number {
  return answers.reduce((sum, { tokens }) => sum + tokens.length, 0);
}

async function arrive(
  all: readonly number[],
  perSecond: number,
  answer: (index: number) => Promise<void>,
): Promise<void> {
  const generator = new Generator(3);
  const pending: Promise<void>[] = [];
  let due = performance.now();
  for (const index of all) {
    const [value = 0.5] = generator.uniform(1, 0, 1);
    due += (-Math.log(1 - value) / perSecond) * 1000;
    await setTimeout(Math.max(0, due - performance.now()));
    pending.push(answer(index));
  }
  await Promise.all(pending);
}

async function answerOf(
  engine: Engine,
  prompt: readonly number[],
  maxNewTokens: number,
  seed: number,
  { waste, asksMore }: { readonly waste: WasteMeter; readonly asksMore: boolean },
): Promise<Answer> {
  let last = performance.now();
  const times: number[] = [];
  const [tokens, logProbabilities]: [number[], number[]] = [[], []];
  const more = asksMore ? { logProbabilities: 0 } : {};
  const request = { prompt, maxNewTokens, seed, ignoreEos: true, ...more };
  for await (const { token, logProbability } of engine.generate(request)) {
    if (token === null) continue;
    waste.look();
    tokens.push(token);
    if (logProbability !== null) logProbabilities.push(logProbability);
    times.push(performance.now() - last);
    last = performance.now();
  }
  const [firstMs = Number.NaN, ...gapsMs] = times;
  return { prompt, tokens, logProbabilities, firstMs, gapsMs };
}

/** Measures the waste of a cache's memory, once in each step. */
class WasteMeter {
  readonly #engine: Engine;
  #step = -1;
  #sum = 0;
  #count = 0;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get mean(): number {
    return this.#sum / this.#count;
  }

  look(): void {
    const { steps, usedBlocks, emptyPlaces } = this.#engine.statistics;
    if (steps === this.#step || usedBlocks === 0) return;
    this.#step = steps;
    this.#sum += emptyPlaces / (usedBlocks * BLOCK_SIZE);
    this.#count++;
  }
}
