import type { Module } from '@shardwise/core/extend';
import type { GeneratingModel, ModelFacts } from '@shardwise/models';
import { ModelSteps } from '../cache/model-steps.ts';
import { PagedCache, type PagedCacheOptions } from '../cache/paged-cache.ts';
import { layOut, runOf, type TokenRun } from '../cache/step-layout.ts';
import { isInStep, type ScheduledChunk, type Sequence } from '../scheduling/sequence.ts';
import { openEnds, type ProposalStep, type Proposer } from './proposer.ts';

/**
 * Proposes what a smaller model would choose. Its keys and values lie in the blocks of the same numbers as those of the
 * model, in a cache of its own, so that sequences share, copy, lose and find both together.
 */
export class DraftModel implements Proposer {
  readonly modules: readonly Module[];
  readonly #tokens: number;
  readonly #blockSize: number;
  readonly cache: PagedCache;
  readonly #steps: ModelSteps;

  /**
   * `options` are those of the model's cache. Models of the same architecture and widths share plans, which are made for
   * sizes up to declared limits, so the limits must be the same.
   */
  constructor(
    model: GeneratingModel,
    facts: ModelFacts,
    tokens: number,
    options: PagedCacheOptions,
  ) {
    this.modules = [facts.module];
    this.#tokens = tokens;
    this.#blockSize = options.blockSize;
    this.cache = new PagedCache(options);
    this.#steps = new ModelSteps(model, facts, this.cache);
  }

  async propose(step: ProposalStep): Promise<ReadonlyMap<Sequence, readonly number[]>> {
    const { plan, scheduler } = step;
    const proposed = new Map<Sequence, number[]>();
    let open = openEnds(step, this.#tokens).map(({ sequence, text, wanted }) => {
      const tokens: number[] = [];
      proposed.set(sequence, tokens);
      return { sequence, text, tokens, places: scheduler.reserve(sequence, wanted) };
    });
    await this.cache.copyBlocks(plan.copies);
    let runs = plan.chunks.map(runWithLast);
    for (let ahead = 0; runs.length > 0; ahead++) {
      const scores = await this.#scoresBehind(runs);
      // Requests may end while the model computes.
      open = open.filter(({ sequence, places }) => places > ahead && isInStep(sequence));
      for (const { sequence, text, tokens } of open) {
        const own = scores.get(sequence);
        if (own !== undefined) {
          tokens.push(text.guess(own, [...sequence.tokens, ...tokens], ahead));
        }
      }
      runs = open
        .filter(({ places }) => places > ahead + 1)
        .map(({ sequence, tokens }) => ({
          sequence,
          start: sequence.tokens.length + ahead,
          tokens: tokens.slice(ahead),
          isChunk: false,
        }));
    }
    return proposed;
  }

  dispose(): void {
    this.#steps.dispose();
    this.cache.dispose();
  }

  /** The scores behind the last token of each run. Shape: each [V]. */
  async #scoresBehind(runs: readonly TokenRun[]): Promise<ReadonlyMap<Sequence, Float32Array>> {
    const layout = layOut(runs, {
      blockSize: this.#blockSize,
      spareBlock: this.cache.spareBlock,
    });
    const all = await this.#steps.run({ copies: [], layout, withLogProbabilities: false });
    const last = new Map<Sequence, Float32Array>();
    for (const [index, run] of layout.scored.entries()) {
      const row = all[index];
      if (run !== null && row !== undefined) last.set(run.sequence, row.scores);
    }
    return last;
  }
}

/**
 * A single token comes with the token before it: if the step before has accepted all that was proposed, nobody has
 * computed the draft's keys and values of that one.
 */
function runWithLast(chunk: ScheduledChunk): TokenRun {
  const { sequence, start, count } = chunk;
  if (count > 1 || start === 0) return runOf(chunk);
  return {
    sequence,
    start: start - 1,
    tokens: sequence.tokens.slice(start - 1, start + 1),
    isChunk: false,
  };
}
