import { checkOptions } from '@shardwise/core/extend';
import type { Tokenizer } from '@shardwise/data';
import {
  type AdapterStack,
  type GeneratingModel,
  modelFacts,
  type ModelFacts,
} from '@shardwise/models';
import type { StepScores } from '../cache/model-steps.ts';
import type { StepRanks } from '../cache/step-order.ts';
import { OutputConstraints } from '../constraints/output-constraints.ts';
import { type CacheState, cacheStateOf } from '../scheduling/cache-state.ts';
import { Scheduler } from '../scheduling/scheduler.ts';
import type { StepPlan } from '../scheduling/step-plan.ts';
import { isInStep, type Sequence } from '../scheduling/sequence.ts';
import { checkSpeculation, tokensOfStep } from '../speculation/speculation.ts';
import type { BeamGroup } from './beam-group.ts';
import type { Continuation } from './continuation.ts';
import {
  disposed,
  groupBroken,
  notFirst,
  otherAdapters,
  unknownAdapter,
  withoutTokenizer,
} from './engine-errors.ts';
import { blockCountOf, engineRules, type EngineOptions, swapSpaceOf } from './engine-options.ts';
import type { EngineStatistics } from './engine-statistics.ts';
import { EngineWeights, type LoadWeightsOptions } from './engine-weights.ts';
import { checkRequest, type GeneratedToken, type GenerationRequest } from './generation-request.ts';
import { ModelRunner, type Proposals } from './model-runner.ts';
import { type OpenRequest, OpenRequests } from './open-requests.ts';
import { stepRanksOf } from './step-ranks-of.ts';

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
  readonly #tokenizer: Tokenizer | null;
  readonly #facts: ModelFacts;
  readonly #scheduler: Scheduler;
  readonly #runner: ModelRunner;
  readonly #adapters: AdapterStack | null;
  readonly #weights: EngineWeights;
  /** Those that have parts of the model. Null: this rank has all of it. */
  readonly #ranks: StepRanks | null;
  readonly #now: () => number;
  readonly #beforeStep: () => Promise<void> | void;
  readonly #requests: OpenRequests;
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
  /** Scores of one token while it is chosen. */
  #scores: Float32Array | null = null;
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
    const {
      cacheTokens: _,
      kvCacheDtype = 'auto',
      preemption: __,
      swapSpace: ___,
      speculation,
      adapters = null,
      beforeStep = () => undefined,
      now = () => performance.now(),
      ...scheduling
    } = options;
    if (speculation !== undefined) checkSpeculation(speculation);
    this.#tokenizer = tokenizer;
    this.#facts = modelFacts(model);
    const blockCount = blockCountOf(options, this.#facts.contextLength);
    if (adapters !== null && adapters.model !== this.#facts.module) {
      throw otherAdapters(this.#facts);
    }
    this.#adapters = adapters;
    const swapSpace = swapSpaceOf(options);
    // The first step knows the bytes of a block. Before it, no sequence has one.
    const swapBlocks = (): number =>
      Math.floor((swapSpace * (blockCount + 1)) / this.#runner.cacheBytes);
    this.#scheduler = new Scheduler({ ...scheduling, blockCount, swapBlocks });
    const { blockSize, maxSequences, maxChunkTokens } = this.#scheduler;
    const sizes = {
      blockCount,
      blockSize,
      // Each token that a step computes for a sequence has a row of its own in the table of single tokens.
      maxSequences: maxSequences * tokensOfStep(speculation),
      maxChunkTokens,
      maxTokens: this.#facts.contextLength,
      kvCacheDtype,
    };
    this.#ranks = stepRanksOf(this.#facts, sizes, this.adapters);
    const ranks = this.#ranks;
    this.#runner = new ModelRunner(model, this.#facts, sizes, { speculation, adapters, ranks });
    this.#requests = new OpenRequests(this.#scheduler, tokenizer, this.#facts);
    this.#now = now;
    this.#beforeStep = beforeStep;
    this.#weights = new EngineWeights(this.#runner.modules, this.#scheduler);
  }

  get tokenizer(): Tokenizer | null {
    return this.#tokenizer;
  }

  /** Makes constraints of requests. Throws ConfigError if the engine has no tokenizer. */
  get constraints(): OutputConstraints {
    if (this.#tokenizer === null) throw withoutTokenizer();
    return (this.#constraints ??= new OutputConstraints(this.#tokenizer, this.#facts.vocabSize));
  }

  /** The names of the adapters that requests may name. */
  get adapters(): readonly string[] {
    return this.#adapters?.names ?? [];
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
      swappedBlocks: this.#scheduler.swappedBlocks,
      cacheBytes: this.#runner.cacheBytes,
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
    if (this.#ranks?.leads === false) throw notFirst();
    if (this.#failure !== null) throw groupBroken(this.#failure.cause);
    const checked = checkRequest(request, this.#facts, this.#tokenizer);
    const { tokens: prompt, maxNewTokens, samples = 1, priority = 0, tenant = '' } = checked;
    const { timeoutMs, adapter, numBeams = 1 } = checked;
    const number = adapter === undefined ? 0 : this.#adapters?.numberOf(adapter);
    if (number === undefined) throw unknownAdapter(adapter ?? '', this.adapters);
    const sequence = this.#scheduler.add({
      prompt,
      maxNewTokens,
      samples: Math.max(samples, numBeams),
      priority,
      tenant,
      adapter: number,
      // Other adapters make other keys and values of the same tokens.
      salt: JSON.stringify([tenant, number]),
      ...(timeoutMs === undefined ? {} : { deadline: this.#now() + timeoutMs }),
    });
    this.#counts.requests++;
    const open = this.#requests.open(checked, sequence);
    this.#loop ??= this.#run();
    // From now on, and not from the first token that is asked for: a client may go before.
    const abort = (): void => {
      this.#requests.fail(open, checked.signal?.reason);
    };
    if (checked.signal?.aborted === true) abort();
    checked.signal?.addEventListener('abort', abort);
    return this.#answer(open, abort);
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
  follow(): Promise<void> {
    return this.#runner.follow();
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
    this.#requests.failAll(disposed());
    await this.drain();
    if (this.#ranks?.leads === true && this.#failure === null) await this.#runner.end();
    this.#runner.dispose();
  }

  async *#answer(open: OpenRequest, abort: () => void): AsyncGenerator<GeneratedToken, void, void> {
    try {
      yield* open.queue.take();
    } finally {
      open.request.signal?.removeEventListener('abort', abort);
      this.#requests.drop(open);
    }
  }

  /** Runs steps while there are requests. */
  async #run(): Promise<void> {
    // The caller of `generate` may still add requests that begin together.
    await Promise.resolve();
    try {
      while (!this.#scheduler.isIdle) {
        await this.#beforeStep();
        await this.#step();
      }
    } catch (error) {
      this.#requests.failAll(error);
      if (this.#ranks !== null) this.#failure = { cause: error };
    } finally {
      this.#loop = null;
      void this.#weights.beforeStep();
    }
  }

  async #step(): Promise<void> {
    await this.#weights.beforeStep();
    const start = this.#now();
    const plan = this.#scheduler.plan(start);
    for (const sequence of plan.expired) this.#requests.expire(sequence);
    this.#count(plan);
    await this.#runner.swap(plan);
    if (plan.chunks.length === 0) return;
    const proposals = await this.#propose(plan);
    // If the weights have changed meanwhile, the next step begins anew.
    if (!this.#weights.isCurrent) return;
    // A request that has ended meanwhile has no blocks, so nothing may be written for it.
    const chunks = plan.chunks.filter(({ sequence }) => isInStep(sequence));
    if (chunks.length === 0) return;
    const withLogProbabilities = chunks.some(
      ({ sequence }) => this.#requests.of(sequence)?.request.logProbabilities !== undefined,
    );
    const { copies } = plan;
    const scores = await this.#runner.compute({ chunks, copies, proposals, withLogProbabilities });
    this.#scheduler.complete({ chunks });
    for (const { sequence, isLast } of chunks) {
      const rows = scores.get(sequence) ?? [];
      const open = this.#requests.of(sequence);
      if (!isLast || open === undefined) continue;
      const forks: Sequence[] = [];
      while (sequence.samples > 1) forks.push(this.#scheduler.fork(sequence));
      for (const fork of forks) this.#requests.begin(open, fork);
      try {
        if (forks.length > 0) open.beams?.begin([sequence, ...forks]);
        for (const each of [sequence, ...forks]) {
          if (open.beams !== null) this.#search(open, open.beams, each, rows);
          else this.#follow(open, each, proposals.get(each) ?? [], rows);
        }
      } catch (error) {
        // The others go on.
        this.#requests.fail(open, error);
      }
    }
    this.#scheduler.noteTime({ chunks }, this.#now() - start);
  }

  /** Gives a beam its scores. When all beams of the request have theirs, they go on, or end. */
  #search(
    open: OpenRequest,
    beams: BeamGroup,
    sequence: Sequence,
    rows: readonly StepScores[],
  ): void {
    const [row] = rows;
    this.#scheduler.hold(sequence);
    const step = row === undefined ? null : beams.take(sequence, row.scores);
    if (step === null) return;
    this.#counts.generatedTokens += step.tokens.length;
    if (beams.isDone) {
      this.#requests.endBeams(open, beams.texts('length'));
      return;
    }
    this.#scheduler.reorder(beams.sequences, step.from);
    for (const [at, each] of beams.sequences.entries()) {
      this.#scheduler.append(each, step.tokens[at] ?? 0);
    }
  }

  async #propose(plan: StepPlan): Promise<Proposals> {
    const textOf = (sequence: Sequence): Continuation | undefined => {
      const open = this.#requests.of(sequence);
      return open?.beams === null ? open.open.get(sequence) : undefined;
    };
    const proposals = await this.#runner.propose({ plan, scheduler: this.#scheduler, textOf });
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
  ): ReturnType<Continuation['next']> | undefined {
    const asked = open.request.logProbabilities !== undefined;
    const text = open.open.get(sequence);
    if (text === undefined) return undefined;
    // Samples of a prompt begin with the same scores.
    const own = text.changesScores ? this.#copyOf(scores) : scores;
    const next = text.next(own, asked ? logProbabilities : null, sequence.tokens);
    this.#counts.generatedTokens++;
    this.#scheduler.append(sequence, next.token);
    this.#requests.push(open, next);
    if (next.finishReason !== null) this.#requests.end(open, sequence);
    return next;
  }

  #copyOf(scores: Float32Array): Float32Array {
    this.#scores ??= new Float32Array(scores.length);
    this.#scores.set(scores);
    return this.#scores;
  }

  #count({ chunks, preempted }: StepPlan): void {
    if (chunks.length > 0) this.#counts.steps++;
    this.#counts.preemptions += preempted.length;
    for (const { sequence, start, count } of chunks) {
      this.#counts.computedTokens += count;
      if (start !== sequence.prefixHit) continue;
      this.#counts.prefixTokens += start;
      this.#requests.begun(sequence, start);
    }
  }
}
