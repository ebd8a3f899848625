import type { Module } from '@shardwise/core/extend';
import type { AdapterStack, GeneratingModel, ModelFacts } from '@shardwise/models';
import { ModelSteps, type StepScores } from '../cache/model-steps.ts';
import { PagedCache, type PagedCacheOptions } from '../cache/paged-cache.ts';
import { layOut, runOf } from '../cache/step-layout.ts';
import type { StepRanks } from '../cache/step-order.ts';
import type { StepPlan } from '../scheduling/step-plan.ts';
import type { ScheduledChunk, Sequence } from '../scheduling/sequence.ts';
import type { ProposalStep, Proposer } from '../speculation/proposer.ts';
import { proposerOf, type Speculation } from '../speculation/speculation.ts';

/** Tokens that are proposed to follow those of sequences. */
export type Proposals = ReadonlyMap<Sequence, readonly number[]>;

/** What a step computes. */
interface RunnerStep {
  readonly chunks: readonly ScheduledChunk[];
  readonly copies: StepPlan['copies'];
  readonly proposals: Proposals;
  readonly withLogProbabilities: boolean;
}

/** What a runner has besides the model. */
interface RunnerParts {
  readonly speculation: Speculation | undefined;
  readonly adapters: AdapterStack | null;
  /** Those that have parts of the model. Null: this rank has all of it. */
  readonly ranks: StepRanks | null;
}

/** Computes what a scheduler has planned: the model and its cache, and what proposes tokens. */
export class ModelRunner {
  /** The models whose weights texts and proposals depend on. */
  readonly modules: readonly Module[];
  readonly #cache: PagedCache;
  readonly #steps: ModelSteps;
  readonly #proposer: Proposer | null;
  readonly #blockSize: number;

  /** Throws ConfigError for a draft model that cannot stand in for the model. */
  constructor(
    model: GeneratingModel,
    facts: ModelFacts,
    sizes: PagedCacheOptions,
    { speculation, adapters, ranks }: RunnerParts,
  ) {
    this.#blockSize = sizes.blockSize;
    this.#cache = new PagedCache(sizes);
    this.#proposer = speculation === undefined ? null : proposerOf(speculation, facts, sizes);
    this.#steps = new ModelSteps(model, facts, this.#cache, { adapters, ranks });
    this.modules = [facts.module, ...(this.#proposer?.modules ?? [])];
  }

  /** The bytes of all keys and values. 0 before the first step, which knows their widths. */
  get cacheBytes(): number {
    return this.#caches().reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** Copies blocks out of the cache and back, which a plan says before anything else. */
  async swap(plan: Pick<StepPlan, 'swapOuts' | 'swapIns'>): Promise<void> {
    await this.#steps.swap(plan);
    await this.#proposer?.cache?.swap(plan);
  }

  /** Proposes tokens behind those of a plan. */
  async propose(step: ProposalStep): Promise<Proposals> {
    return (await this.#proposer?.propose(step)) ?? new Map();
  }

  /**
   * Computes chunks, and returns the scores behind the last token of each, and behind all that is proposed behind it.
   */
  async compute({
    chunks,
    copies,
    proposals,
    withLogProbabilities,
  }: RunnerStep): Promise<ReadonlyMap<Sequence, readonly StepScores[]>> {
    const layout = layOut(
      chunks.map((chunk) => runOf(chunk, proposals.get(chunk.sequence))),
      { blockSize: this.#blockSize, spareBlock: this.#cache.spareBlock },
    );
    const rows = await this.#steps.run({ copies, layout, withLogProbabilities });
    const scores = new Map<Sequence, StepScores[]>();
    for (const [index, row] of rows.entries()) {
      const sequence = layout.scored[index]?.sequence;
      if (sequence === undefined) continue;
      const known = scores.get(sequence);
      if (known === undefined) scores.set(sequence, [row]);
      else known.push(row);
    }
    return scores;
  }

  /** Computes the steps that the first rank orders, until it says that none follows. */
  follow(): Promise<void> {
    return this.#steps.follow();
  }

  /** Says to the other ranks that no step follows. */
  end(): Promise<void> {
    return this.#steps.end();
  }

  dispose(): void {
    this.#steps.dispose();
    this.#cache.dispose();
    this.#proposer?.dispose();
  }

  #caches(): readonly PagedCache[] {
    const ofDraft = this.#proposer?.cache ?? null;
    return ofDraft === null ? [this.#cache] : [this.#cache, ofDraft];
  }
}
