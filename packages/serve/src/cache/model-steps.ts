import {
  currentSession,
  evaluating,
  type Node,
  noGrad,
  type Tensor,
  withoutValues,
} from '@shardwise/core/extend';
import { type AdapterStack, type GeneratingModel, type ModelFacts } from '@shardwise/models';
import type { PagedCache } from './paged-cache.ts';
import type { StepLayout } from './step-layout.ts';
import type { StepOrder, StepRanks, SwapOrder } from './step-order.ts';

/** What the model says of the token behind one. It may change with the next step. Shape: each [V]. */
export interface StepScores {
  readonly scores: Float32Array;
  /** Null if no request of the step asked for them. */
  readonly logProbabilities: Float32Array | null;
}

/** Runs a model on the tokens of steps, with the keys and values of a cache. */
export class ModelSteps {
  readonly #model: GeneratingModel;
  readonly #facts: ModelFacts;
  readonly #cache: PagedCache;
  readonly #adapters: AdapterStack | null;
  readonly #ranks: StepRanks | null;
  /** The forms of steps that have run: with a chunk, with single tokens, with log-probabilities. */
  readonly #known = new Set<string>();
  /** The scores of the last step, which are read where they lie. */
  #scored: readonly Tensor[] = [];

  /** `adapters` are those of the model. `ranks` are those that have parts of it. Null: this rank has all of it. */
  constructor(
    model: GeneratingModel,
    facts: ModelFacts,
    cache: PagedCache,
    {
      adapters = null,
      ranks = null,
    }: { readonly adapters?: AdapterStack | null; readonly ranks?: StepRanks | null } = {},
  ) {
    this.#adapters = adapters;
    this.#model = model;
    this.#facts = facts;
    this.#cache = cache;
    this.#ranks = ranks;
  }

  /**
   * Computes the tokens of a step as one row, and writes their keys and values into the cache. Returns the scores behind
   * the last tokens of the row, those that `scored` speaks of. Other ranks with parts of the model compute it, too.
   */
  async run(order: Omit<StepOrder, 'kind'>): Promise<readonly StepScores[]> {
    await this.#ranks?.send({ kind: 'step', ...order });
    return this.#runOwn(order);
  }

  /** Copies blocks out of the cache and into it. Other ranks with parts of the model copy theirs. */
  async swap({ swapOuts, swapIns }: Omit<SwapOrder, 'kind'>): Promise<void> {
    if (swapOuts.length + swapIns.length === 0) return;
    await this.#ranks?.send({ kind: 'swap', swapOuts, swapIns });
    await this.#cache.swap({ swapOuts, swapIns });
  }

  /** Does what the first rank orders, until it says that nothing follows. */
  async follow(): Promise<void> {
    for (;;) {
      const order = (await this.#ranks?.receive()) ?? null;
      if (order === null) return;
      if (order.kind === 'swap') await this.#cache.swap(order);
      else await this.#runOwn(order);
    }
  }

  /** Frees the memory. */
  dispose(): void {
    for (const each of this.#scored) each.dispose();
    this.#scored = [];
  }

  /** Says that no step follows. */
  async end(): Promise<void> {
    await this.#ranks?.send(null);
  }

  async #runOwn({
    copies,
    layout,
    withLogProbabilities,
  }: Omit<StepOrder, 'kind'>): Promise<readonly StepScores[]> {
    await this.#cache.copyBlocks(copies);
    const form = [layout.groups.map(({ queries }) => queries > 1), withLogProbabilities].join();
    if (!this.#known.has(form)) {
      // A plan for all sizes is made where sizes are seen to vary. Those of these steps are equal to each other, and to
      // sizes of the model, only by chance.
      for (const [index, example] of this.#cache.examplesLike(layout).entries()) {
        await this.#compute(example, withLogProbabilities, index > 0);
      }
      this.#known.add(form);
    }
    return this.#compute(layout, withLogProbabilities, true);
  }

  async #compute(
    { groups, scored }: StepLayout,
    withLogProbabilities: boolean,
    declares: boolean,
  ): Promise<readonly StepScores[]> {
    this.dispose();
    // Small values between are not computed with the step, because nobody reads them.
    const made = noGrad(() =>
      withoutValues(() => {
        const { tokens, positions, adapters } = this.#cache.begin({ groups }, declares);
        const call = { cache: this.#cache, positionIds: positions, logitsToKeep: scored.length };
        // Only this pass is one without dropout: a training may have passes of its own between steps.
        const forward = (): Tensor => evaluating(() => this.#model.forward(tokens, call));
        const all = this.#adapters?.withSelected(adapters, forward) ?? forward();
        const logits = all.select(0, 0).to('f32');
        return withLogProbabilities ? [logits, logits.logSoftmax()] : [logits];
      }),
    );
    await currentSession().realize(made.map(wholeOf));
    this.#scored = made;
    const [scores = [], logProbabilities = null] = await Promise.all(
      made.map((each) => this.#rowsOf(each, scored.length)),
    );
    return scores.map((row, index) => ({
      scores: row,
      logProbabilities: logProbabilities?.[index] ?? null,
    }));
  }

  /** The rows of a tensor, without a copy if the device computes in host memory. Shape: x f32 [count, W] -> count of [V]. */
  async #rowsOf(x: Tensor, count: number): Promise<readonly Float32Array[]> {
    const { buffer, byteOffset } = await currentSession().view(wholeOf(x));
    const { vocabSize } = this.#facts;
    const rowBytes = 4 * (x.shape.at(-1) ?? vocabSize);
    return Array.from(
      { length: count },
      (_, row) => new Float32Array(buffer, byteOffset + row * rowBytes, vocabSize),
    );
  }
}

/** The value of a tensor, also if ranks have parts of it. */
function wholeOf({ node }: Tensor): Node {
  return node.distributed?.whole ?? node;
}
