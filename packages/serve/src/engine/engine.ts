import { checkOptions, ConfigError, defaultGenerator, type Module } from '@shardwise/core/extend';
import type { Tokenizer } from '@shardwise/data';
import { evaluating, type GeneratingModel, modelFacts, type ModelFacts } from '@shardwise/models';
import { PagedCache } from '../cache/paged-cache.ts';
import { ModelSteps, type StepScores } from '../cache/model-steps.ts';
import { layOut, runOf } from '../cache/step-layout.ts';
import { OutputConstraints } from '../constraints/output-constraints.ts';
import { type CacheState, cacheStateOf } from '../scheduling/cache-state.ts';
import { Scheduler, type StepPlan } from '../scheduling/scheduler.ts';
import { isInStep, type Sequence } from '../scheduling/sequence.ts';
import type { Proposer } from '../speculation/proposer.ts';
import { checkSpeculation, proposerOf, tokensOfStep } from '../speculation/speculation.ts';
import { Continuation } from './continuation.ts';
import { disposed } from './disposed.ts';
import { blockCountOf, engineRules, type EngineOptions } from './engine-options.ts';
import type { EngineStatistics } from './engine-statistics.ts';
import {
  type CheckedRequest,
  checkRequest,
  type GeneratedToken,
  type GenerationRequest,
} from './generation-request.ts';
import { weightsVersion } from './weights-version.ts';
import { ValueQueue } from './value-queue.ts';

/** A request that is being answered. */
interface OpenRequest {
  readonly request: CheckedRequest;
  readonly seed: number;
  readonly queue: ValueQueue<GeneratedToken>;
  /** The sequences of its samples that have not ended. */
  readonly open: Map<Sequence, Continuation>;
  /** How many samples have begun. */
  begun: number;
}

/**
 * Answers requests with a language model, all of them in one rolling batch over a paged cache. A request may come at any
 * time. Each token comes as soon as it is known.
 *
 * The model may be trained between steps: the cache then forgets what the old weights made, and requests that are being
 * answered compute their keys and values anew.
 *
 *     const engine = new Engine(model, tokenizer);
 *     for await (const { text } of engine.generate({ prompt: 'Once upon', maxNewTokens: 64 })) { … }
 */
export class Engine {
  readonly #steps: ModelSteps;
  readonly #tokenizer: Tokenizer | null;
  readonly #facts: ModelFacts;
  readonly #scheduler: Scheduler;
  readonly #cache: PagedCache;
  readonly #proposer: Proposer | null;
  readonly #now: () => number;
  readonly #beforeStep: () => Promise<void> | void;
  readonly #requests = new Map<Sequence, OpenRequest>();
  readonly #counts = {
    steps: 0,
    requests: 0,
    computedTokens: 0,
    generatedTokens: 0,
    prefixTokens: 0,
    proposedTokens: 0,
    acceptedTokens: 0,
    preemptions: 0,
  };
  #constraints: OutputConstraints | undefined;
  #weights: number;
  #loop: Promise<void> | null = null;
  #isDisposed = false;

  /**
   * Throws ConfigError for a model that is no language model, for one whose layers are divided into the stages of a
   * pipeline, for a draft model that cannot stand in for it, and for options that are out of range.
   */
  constructor(
    model: GeneratingModel,
    tokenizer: Tokenizer | null = null,
    options: EngineOptions = {},
  ) {
    checkOptions('an engine', options, engineRules);
    const { cacheTokens: _, speculation, beforeStep, now, ...scheduling } = options;
    if (speculation !== undefined) checkSpeculation(speculation);
    this.#tokenizer = tokenizer;
    this.#facts = modelFacts(model);
    if (this.#facts.sharedAxes.length > 0) throw dividedModel(this.#facts);
    const blockCount = blockCountOf(options, this.#facts.contextLength);
    this.#scheduler = new Scheduler({ ...scheduling, blockCount });
    const { blockSize, maxSequences, maxChunkTokens } = this.#scheduler;
    const sizes = {
      blockCount,
      blockSize,
      // Each token that a step computes for a sequence has a row of its own in the table of single tokens.
      maxSequences: maxSequences * tokensOfStep(speculation),
      maxChunkTokens,
      maxTokens: this.#facts.contextLength,
    };
    this.#cache = new PagedCache(sizes);
    this.#proposer = speculation === undefined ? null : proposerOf(speculation, this.#facts, sizes);
    this.#steps = new ModelSteps(model, this.#facts, this.#cache);
    this.#now = now ?? (() => performance.now());
    this.#beforeStep = beforeStep ?? (() => undefined);
    this.#weights = this.#version();
  }

  get tokenizer(): Tokenizer | null {
    return this.#tokenizer;
  }

  /** Makes constraints of requests. Throws ConfigError if the engine has no tokenizer. */
  get constraints(): OutputConstraints {
    if (this.#tokenizer === null) throw withoutTokenizer();
    return (this.#constraints ??= new OutputConstraints(this.#tokenizer, this.#facts.vocabSize));
  }

  get facts(): ModelFacts {
    return this.#facts;
  }

  get statistics(): EngineStatistics {
    const { allocator, waiting, running, emptyPlaces } = this.#scheduler;
    return {
      ...this.#counts,
      waiting: waiting.length,
      running: running.length,
      blocks: allocator.blockCount,
      usedBlocks: allocator.used,
      emptyPlaces,
      keptBlocks: allocator.kept,
      cacheBytes: this.#cache.byteLength + (this.#proposer?.cacheBytes ?? 0),
    };
  }

  /** Who has which blocks now. */
  get cacheState(): CacheState {
    return cacheStateOf(this.#scheduler);
  }

  /**
   * Answers a request: yields each token of its texts as soon as it is known. A caller that stops iterating ends the
   * request. Throws ConfigError for a request that the model cannot answer, before anything is computed.
   */
  generate(request: GenerationRequest): AsyncGenerator<GeneratedToken, void, void> {
    if (this.#isDisposed) throw disposed();
    const checked = checkRequest(request, this.#facts, this.#tokenizer);
    const { tokens: prompt, maxNewTokens, samples = 1, priority = 0, tenant = '' } = checked;
    const { timeoutMs } = checked;
    const sequence = this.#scheduler.add({
      prompt,
      maxNewTokens,
      samples,
      priority,
      tenant,
      salt: tenant,
      ...(timeoutMs === undefined ? {} : { deadline: this.#now() + timeoutMs }),
    });
    this.#counts.requests++;
    const open: OpenRequest = {
      request: checked,
      seed: checked.seed ?? defaultGenerator().random(),
      queue: new ValueQueue(),
      open: new Map(),
      begun: 0,
    };
    this.#begin(open, sequence);
    this.#loop ??= this.#run();
    return this.#answer(open);
  }

  /** Waits until all requests are answered. */
  async drain(): Promise<void> {
    while (this.#loop !== null) await this.#loop;
  }

  /** Ends all requests with an error, and frees the cache when the step that runs has ended. */
  async dispose(): Promise<void> {
    this.#isDisposed = true;
    this.#failAll(disposed());
    await this.drain();
    this.#cache.dispose();
    this.#proposer?.dispose();
  }

  async *#answer(open: OpenRequest): AsyncGenerator<GeneratedToken, void, void> {
    const { signal } = open.request;
    const abort = (): void => {
      open.queue.fail(signal?.reason);
      this.#drop(open);
    };
    if (signal?.aborted === true) abort();
    signal?.addEventListener('abort', abort);
    try {
      yield* open.queue.take();
    } finally {
      signal?.removeEventListener('abort', abort);
      this.#drop(open);
    }
  }

  #begin(open: OpenRequest, sequence: Sequence): void {
    const sample = open.begun++;
    const { request, seed } = open;
    const { eosTokenIds } = this.#facts;
    open.open.set(
      sequence,
      new Continuation(request, sample, seed + sample, this.#tokenizer, eosTokenIds),
    );
    this.#requests.set(sequence, open);
  }

  /** Removes what is left of a request. */
  #drop(open: OpenRequest): void {
    for (const sequence of open.open.keys()) this.#remove(open, sequence);
  }

  #remove(open: OpenRequest, sequence: Sequence): void {
    this.#scheduler.remove(sequence);
    this.#requests.delete(sequence);
    open.open.delete(sequence);
  }

  #failAll(error: unknown): void {
    for (const open of new Set(this.#requests.values())) {
      open.queue.fail(error);
      this.#drop(open);
    }
  }

  /** Runs steps while there are requests. */
  async #run(): Promise<void> {
    // The caller of `generate` may still add requests that begin together.
    await Promise.resolve();
    const restore = this.#modules().map((module) => evaluating(module));
    try {
      while (!this.#scheduler.isIdle) {
        await this.#beforeStep();
        await this.#step();
      }
    } catch (error) {
      this.#failAll(error);
    } finally {
      for (const each of restore.toReversed()) each();
      this.#loop = null;
    }
  }

  async #step(): Promise<void> {
    this.#followWeights();
    const plan = this.#scheduler.plan(this.#now());
    for (const sequence of plan.expired) this.#expire(sequence);
    if (plan.chunks.length === 0) return;
    this.#count(plan);
    const proposals = await this.#propose(plan);
    // If the weights have changed meanwhile, the next step begins anew.
    if (this.#version() !== this.#weights) return;
    // A request that has ended meanwhile has no blocks, so nothing may be written for it.
    const chunks = plan.chunks.filter(({ sequence }) => isInStep(sequence));
    if (chunks.length === 0) return;
    this.#cache.copyBlocks(plan.copies);
    const layout = layOut(
      chunks.map((chunk) => runOf(chunk, proposals.get(chunk.sequence))),
      { blockSize: this.#scheduler.blockSize, spareBlock: this.#cache.spareBlock },
    );
    const asksForLogProbabilities = chunks.some(
      ({ sequence }) => this.#requests.get(sequence)?.request.logProbabilities !== undefined,
    );
    const all = await this.#steps.run(layout, asksForLogProbabilities);
    this.#scheduler.complete({ chunks });
    for (const { sequence, isLast } of chunks) {
      const rows = all.filter((_, index) => layout.scored[index]?.sequence === sequence);
      const open = this.#requests.get(sequence);
      if (!isLast || open === undefined) continue;
      const forks: Sequence[] = [];
      while (sequence.samples > 1) forks.push(this.#scheduler.fork(sequence));
      for (const fork of forks) this.#begin(open, fork);
      try {
        for (const each of [sequence, ...forks]) {
          this.#follow(open, each, proposals.get(each) ?? [], rows);
        }
      } catch (error) {
        // The others go on.
        open.queue.fail(error);
        this.#drop(open);
      }
    }
  }

  async #propose(plan: StepPlan): Promise<ReadonlyMap<Sequence, readonly number[]>> {
    if (this.#proposer === null) return new Map();
    const textOf = (sequence: Sequence): Continuation | undefined =>
      this.#requests.get(sequence)?.open.get(sequence);
    const proposals = await this.#proposer.propose({ plan, scheduler: this.#scheduler, textOf });
    for (const { length } of proposals.values()) {
      this.#counts.proposedTokens += length;
      this.#counts.computedTokens += length;
    }
    return proposals;
  }

  /**
   * Chooses the next token of a sequence, and those behind it as long as it is what was proposed. Each is chosen as if
   * nothing had been proposed, with the scores behind the tokens before it.
   */
  #follow(
    open: OpenRequest,
    sequence: Sequence,
    proposed: readonly number[],
    rows: readonly StepScores[],
  ): void {
    for (const [at, row] of rows.entries()) {
      const next = this.#add(open, sequence, row);
      if (next === undefined || next.token !== proposed[at]) break;
      this.#counts.acceptedTokens++;
      if (next.finishReason !== null) break;
      this.#scheduler.accept(sequence);
    }
    this.#scheduler.giveBack(sequence);
  }

  /** Chooses the next token of a sequence, and ends it if that is its last one. */
  #add(
    open: OpenRequest,
    sequence: Sequence,
    { scores, logProbabilities }: StepScores,
  ): GeneratedToken | undefined {
    const asked = open.request.logProbabilities !== undefined;
    // Samples of a prompt begin with the same scores, which are changed.
    const next = open.open
      .get(sequence)
      ?.next(scores.slice(), asked ? logProbabilities : null, sequence.tokens);
    if (next === undefined) return undefined;
    this.#counts.generatedTokens++;
    this.#scheduler.append(sequence, next.token);
    open.queue.push(next);
    if (next.finishReason !== null) this.#end(open, sequence);
    return next;
  }

  #expire(sequence: Sequence): void {
    const open = this.#requests.get(sequence);
    const continuation = open?.open.get(sequence);
    if (open === undefined || continuation === undefined) return;
    open.queue.push(continuation.end('timeout'));
    this.#end(open, sequence);
  }

  #end(open: OpenRequest, sequence: Sequence): void {
    this.#remove(open, sequence);
    if (open.open.size === 0) open.queue.end();
  }

  /** Forgets keys and values that other weights have made. */
  #followWeights(): void {
    const version = this.#version();
    if (version === this.#weights) return;
    this.#weights = version;
    this.#scheduler.restart();
  }

  #modules(): readonly Module[] {
    return [this.#facts.module, ...(this.#proposer?.modules ?? [])];
  }

  #version(): number {
    return Math.max(...this.#modules().map(weightsVersion));
  }

  #count({ chunks, preempted }: StepPlan): void {
    this.#counts.steps++;
    this.#counts.preemptions += preempted.length;
    for (const { sequence, start, count } of chunks) {
      this.#counts.computedTokens += count;
      if (start === sequence.prefixHit) this.#counts.prefixTokens += start;
    }
  }
}

function dividedModel({ module, sharedAxes }: ModelFacts): ConfigError {
  return new ConfigError(
    {
      asked: `an engine with a ${module.architecture}`,
      found: `a model of which the ranks of ${sharedAxes.join(', ')} have parts`,
      todo: 'Give an engine on each rank a whole model, or use generate() of @shardwise/models',
    },
    { axes: sharedAxes },
  );
}

function withoutTokenizer(): ConfigError {
  return new ConfigError({
    asked: 'an output of a certain form',
    found: 'an engine without a tokenizer',
    todo: 'Give a tokenizer, which knows the texts of tokens',
  });
}
