import { checkOptions, defaultGenerator, type Module } from '@shardwise/core/extend';
import type { Tokenizer } from '@shardwise/data';
import { evaluating, type GeneratingModel, modelFacts, type ModelFacts } from '@shardwise/models';
import { PagedCache } from '../cache/paged-cache.ts';
import { ModelSteps, type StepScores } from '../cache/model-steps.ts';
import { layOut, runOf } from '../cache/step-layout.ts';
import type { StepRanks } from '../cache/step-order.ts';
import { OutputConstraints } from '../constraints/output-constraints.ts';
import { Scheduler, type StepPlan } from '../scheduling/scheduler.ts';
import { isInStep, type Sequence } from '../scheduling/sequence.ts';
import type { Proposer } from '../speculation/proposer.ts';
import { checkSpeculation, proposerOf, tokensOfStep } from '../speculation/speculation.ts';
import { Continuation } from './continuation.ts';
import { disposed, groupBroken, notFirst, withoutTokenizer } from './engine-errors.ts';
import { blockCountOf, engineRules, type EngineOptions } from './engine-options.ts';
import type { EngineStatistics } from './engine-statistics.ts';
import { EngineWeights, type LoadWeightsOptions } from './engine-weights.ts';
import {
  type CheckedRequest,
  checkRequest,
  type GeneratedToken,
  type GenerationRequest,
} from './generation-request.ts';
import { stepRanksOf } from './step-ranks-of.ts';
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
  readonly #weights: EngineWeights;
  /** Those that have parts of the model. Null: this rank has all of it. */
  readonly #ranks: StepRanks | null;
  readonly #now: () => number;
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
  #loop: Promise<void> | null = null;
  #isDisposed = false;
  /** Why the ranks do not agree any more. */
  #failure: { readonly cause: unknown } | null = null;

  /**
   * Throws ConfigError for a model that is no language model, for one that is divided in another way than by tensor
   * parallelism, for a draft model that cannot stand in for it, and for options that are out of range.
   */
  constructor(
    model: GeneratingModel,
    tokenizer: Tokenizer | null = null,
    options: EngineOptions = {},
  ) {
    checkOptions('an engine', options, engineRules);
    const { cacheTokens: _, speculation, now = () => performance.now(), ...scheduling } = options;
    if (speculation !== undefined) checkSpeculation(speculation);
    this.#tokenizer = tokenizer;
    this.#facts = modelFacts(model);
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
    this.#ranks = stepRanksOf(this.#facts, sizes);
    this.#steps = new ModelSteps(model, this.#facts, this.#cache, this.#ranks);
    this.#now = now;
    this.#weights = new EngineWeights(this.#modules(), this.#scheduler);
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
      ...this.#weights.statistics,
      waiting: waiting.length,
      running: running.length,
      blocks: allocator.blockCount,
      usedBlocks: allocator.used,
      emptyPlaces,
      keptBlocks: allocator.kept,
      cacheBytes: this.#cache.byteLength + (this.#proposer?.cacheBytes ?? 0),
    };
  }

  /**
   * Answers a request: yields each token of its texts as soon as it is known. A caller that stops iterating ends the
   * request. Throws ConfigError for a request that the model cannot answer, before anything is computed.
   */
  generate(request: GenerationRequest): AsyncGenerator<GeneratedToken, void, void> {
    if (this.#isDisposed) throw disposed();
    if (this.#ranks?.leads === false) throw notFirst();
    if (this.#failure !== null) throw groupBroken(this.#failure.cause);
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

  /**
   * Runs `load`, which replaces weights of the model, between two steps. Rejects with its error, after which the engine goes
   * on with what the model has then.
   */
  loadWeights(load: () => Promise<unknown>, options: LoadWeightsOptions): Promise<void> {
    if (this.#ranks !== null) throw notFirst();
    return this.#weights.load(load, options);
  }

  /**
   * Computes what the first rank of a divided model decides, until that one's engine is disposed of. All others call it.
   */
  async follow(): Promise<void> {
    const restore = this.#modules().map((module) => evaluating(module));
    try {
      await this.#steps.follow();
    } finally {
      for (const each of restore.toReversed()) each();
    }
  }

  /** Whether a step of a model failed that several ranks have parts of. They must all start again. */
  get isBroken(): boolean {
    return this.#failure !== null;
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
    if (this.#ranks?.leads === true && this.#failure === null) await this.#steps.end();
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
      while (!this.#scheduler.isIdle) await this.#step();
    } catch (error) {
      this.#failAll(error);
      if (this.#ranks !== null) this.#failure = { cause: error };
    } finally {
      for (const each of restore.toReversed()) each();
      this.#loop = null;
      void this.#weights.beforeStep();
    }
  }

  async #step(): Promise<void> {
    await this.#weights.beforeStep();
    const plan = this.#scheduler.plan(this.#now());
    for (const sequence of plan.expired) this.#expire(sequence);
    if (plan.chunks.length === 0) return;
    this.#count(plan);
    const proposals = await this.#propose(plan);
    // If the weights have changed meanwhile, the next step begins anew.
    if (!this.#weights.isCurrent) return;
    // A request that has ended meanwhile has no blocks, so nothing may be written for it.
    const chunks = plan.chunks.filter(({ sequence }) => isInStep(sequence));
    if (chunks.length === 0) return;
    const layout = layOut(
      chunks.map((chunk) => runOf(chunk, proposals.get(chunk.sequence))),
      { blockSize: this.#scheduler.blockSize, spareBlock: this.#cache.spareBlock },
    );
    const withLogProbabilities = chunks.some(
      ({ sequence }) => this.#requests.get(sequence)?.request.logProbabilities !== undefined,
    );
    const all = await this.#steps.run({ copies: plan.copies, layout, withLogProbabilities });
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

  #modules(): readonly Module[] {
    return [this.#facts.module, ...(this.#proposer?.modules ?? [])];
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
