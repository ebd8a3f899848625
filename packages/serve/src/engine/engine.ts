import {
  checkOptions,
  ConfigError,
  defaultGenerator,
  TensorStateError,
} from '@shardwise/core/extend';
import type { Tokenizer } from '@shardwise/data';
import { evaluating, type GeneratingModel, modelFacts, type ModelFacts } from '@shardwise/models';
import { PagedCache } from '../cache/paged-cache.ts';
import { layOut } from '../cache/step-layout.ts';
import { OutputConstraints } from '../constraints/output-constraints.ts';
import { Scheduler, type StepPlan } from '../scheduling/scheduler.ts';
import type { Sequence } from '../scheduling/sequence.ts';
import { Continuation } from './continuation.ts';
import { blockCountOf, engineRules, type EngineOptions } from './engine-options.ts';
import {
  type CheckedRequest,
  checkRequest,
  type GeneratedToken,
  type GenerationRequest,
} from './generation-request.ts';
import { ModelSteps } from './model-steps.ts';
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

/** Counts since an engine was made. */
export interface EngineStatistics {
  readonly steps: number;
  readonly requests: number;
  /** Tokens whose keys and values were computed, of prompts and behind them. */
  readonly computedTokens: number;
  readonly generatedTokens: number;
  /** Tokens of prompts that were found in the cache. */
  readonly prefixTokens: number;
  readonly preemptions: number;
  readonly waiting: number;
  readonly running: number;
  readonly blocks: number;
  readonly usedBlocks: number;
  /** Places of used blocks that have no token. Only the last block of a sequence has such places. */
  readonly emptyPlaces: number;
  /** Blocks that nobody uses, whose content a prompt may begin with. */
  readonly keptBlocks: number;
  readonly cacheBytes: number;
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
  readonly #now: () => number;
  readonly #requests = new Map<Sequence, OpenRequest>();
  readonly #counts = {
    steps: 0,
    requests: 0,
    computedTokens: 0,
    generatedTokens: 0,
    prefixTokens: 0,
    preemptions: 0,
  };
  #constraints: OutputConstraints | undefined;
  #weights: number;
  #loop: Promise<void> | null = null;
  #isDisposed = false;

  /**
   * Throws ConfigError for a model that is no language model, for one whose layers are divided into the stages of a
   * pipeline, and for options that are out of range.
   */
  constructor(
    model: GeneratingModel,
    tokenizer: Tokenizer | null = null,
    options: EngineOptions = {},
  ) {
    checkOptions('an engine', options, engineRules);
    const { cacheTokens: _, now = () => performance.now(), ...scheduling } = options;
    this.#tokenizer = tokenizer;
    this.#facts = modelFacts(model);
    if (this.#facts.sharedAxes.length > 0) throw dividedModel(this.#facts);
    const blockCount = blockCountOf(options, this.#facts.contextLength);
    this.#scheduler = new Scheduler({ ...scheduling, blockCount });
    const { blockSize, maxSequences, maxChunkTokens } = this.#scheduler;
    const maxTokens = this.#facts.contextLength;
    this.#cache = new PagedCache({
      blockCount,
      blockSize,
      maxSequences,
      maxChunkTokens,
      maxTokens,
    });
    this.#steps = new ModelSteps(model, this.#facts, this.#cache);
    this.#now = now;
    this.#weights = weightsVersion(this.#facts.module);
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
      cacheBytes: this.#cache.byteLength,
    };
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
    const restore = evaluating(this.#facts.module);
    try {
      while (!this.#scheduler.isIdle) await this.#step();
    } catch (error) {
      this.#failAll(error);
    } finally {
      restore();
      this.#loop = null;
    }
  }

  async #step(): Promise<void> {
    this.#followWeights();
    const plan = this.#scheduler.plan(this.#now());
    for (const sequence of plan.expired) this.#expire(sequence);
    if (plan.chunks.length === 0) return;
    this.#count(plan);
    this.#cache.copyBlocks(plan.copies);
    const layout = layOut(plan.chunks, {
      blockSize: this.#scheduler.blockSize,
      spareBlock: this.#cache.spareBlock,
    });
    const asksForLogProbabilities = plan.chunks.some(
      ({ sequence }) => this.#requests.get(sequence)?.request.logProbabilities !== undefined,
    );
    const all = await this.#steps.run(layout, asksForLogProbabilities);
    this.#scheduler.complete(plan);
    for (const [index, chunk] of layout.scored.entries()) {
      const scores = all[index];
      if (chunk === null || scores === undefined) continue;
      const { sequence } = chunk;
      const open = this.#requests.get(sequence);
      if (open === undefined) continue;
      const forks: Sequence[] = [];
      while (sequence.samples > 1) forks.push(this.#scheduler.fork(sequence));
      for (const fork of forks) this.#begin(open, fork);
      try {
        for (const each of [sequence, ...forks]) {
          this.#add(open, each, scores.scores.slice(), scores.logProbabilities);
        }
      } catch (error) {
        // The others go on.
        open.queue.fail(error);
        this.#drop(open);
      }
    }
  }

  /** Chooses the next token of a sequence, and ends it if that is its last one. */
  #add(
    open: OpenRequest,
    sequence: Sequence,
    scores: Float32Array,
    logProbabilities: Float32Array | null,
  ): void {
    const asked = open.request.logProbabilities !== undefined;
    const next = open.open
      .get(sequence)
      ?.next(scores, asked ? logProbabilities : null, sequence.tokens);
    if (next === undefined) return;
    this.#counts.generatedTokens++;
    this.#scheduler.append(sequence, next.token);
    open.queue.push(next);
    if (next.finishReason !== null) this.#end(open, sequence);
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
    const version = weightsVersion(this.#facts.module);
    if (version === this.#weights) return;
    this.#weights = version;
    this.#scheduler.restart();
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

function disposed(): TensorStateError {
  return new TensorStateError({
    asked: 'a request',
    found: 'an engine that has been disposed of',
    todo: 'Make another engine',
  });
}
