import { evaluating, fromData, noGrad, type Tensor } from '@shardwise/core/extend';
import { onEveryRank } from '@shardwise/strategies';
import type { ForwardCall } from '../model/forward-call.ts';
import { ContiguousCache } from './contiguous-cache.ts';
import type { GeneratingModel, ModelFacts } from './generating-model.ts';

/** Lengths of prompts and capacities of caches are multiples of this, so that few programs are compiled. */
const STEP = 32;

/** Feeds a model with a batch of growing rows, which are padded on the left. */
export interface Decoding {
  /** Returns the scores of the token after the prompts. Shape: -> B arrays of [V]. */
  start(): Promise<readonly Float32Array[]>;
  /** Adds a token to each row, and returns the scores of the token after it. */
  next(tokens: readonly number[]): Promise<readonly Float32Array[]>;
  /** Makes each row continue another one, or itself, before the next token. */
  reorder(rows: readonly number[]): void;
  dispose(): void;
}

/** Chooses how rows are decoded: with a cache, or in a pipeline, where stages keep no cache, by computing them anew. */
export function decodingOf(
  model: GeneratingModel,
  facts: ModelFacts,
  prompts: readonly (readonly number[])[],
): Decoding {
  return facts.hasStages
    ? new RepeatedDecoding(model, facts, prompts)
    : new CachedDecoding(model, facts, prompts);
}

/** Each step computes one token of each row, and reads the keys and values of the earlier ones. */
class CachedDecoding implements Decoding {
  readonly #model: GeneratingModel;
  readonly #facts: ModelFacts;
  readonly #prompts: readonly (readonly number[])[];
  readonly #padded: number;
  readonly #cache: ContiguousCache;
  /** The slot of the next token. */
  #slot: number;

  constructor(model: GeneratingModel, facts: ModelFacts, prompts: readonly (readonly number[])[]) {
    this.#model = model;
    this.#facts = facts;
    this.#prompts = prompts;
    this.#padded = roundUp(longest(prompts));
    this.#slot = this.#padded;
    this.#cache = new ContiguousCache(roundUp(this.#padded + 1));
  }

  start(): Promise<readonly Float32Array[]> {
    this.#cache.begin(this.#padded, integer(0));
    return scoresOf(
      this.#model,
      this.#facts,
      ...paddedCall(this.#prompts, this.#padded, { cache: this.#cache }),
    );
  }

  next(tokens: readonly number[]): Promise<readonly Float32Array[]> {
    if (this.#slot === this.#cache.capacity) {
      noGrad(() => this.#cache.grow(2 * this.#cache.capacity));
    }
    const { capacity } = this.#cache;
    const slot = this.#slot++;
    this.#cache.begin(1, integer(slot));
    const rows = tokens.length;
    // Slots before the prompt of a row are padding, and those after the new token are not filled yet.
    const starts = this.#prompts.map(({ length }) => this.#padded - length);
    const mask = starts.flatMap((start) =>
      Array.from({ length: capacity }, (_, at) => Number(at >= start && at <= slot)),
    );
    return scoresOf(this.#model, this.#facts, integers(tokens, [rows, 1]), {
      attentionMask: integers(mask, [rows, capacity]),
      // A row that has ended may be fed further, as long as others go on.
      positionIds: integers(
        starts.map((start) => Math.min(slot - start, this.#facts.contextLength - 1)),
        [rows, 1],
      ),
      cache: this.#cache,
    });
  }

  reorder(rows: readonly number[]): void {
    noGrad(() => this.#cache.reorder(rows));
  }

  dispose(): void {
    this.#cache.dispose();
  }
}

/** Each step computes all tokens of each row. */
class RepeatedDecoding implements Decoding {
  readonly #model: GeneratingModel;
  readonly #facts: ModelFacts;
  #rows: readonly (readonly number[])[];

  constructor(model: GeneratingModel, facts: ModelFacts, prompts: readonly (readonly number[])[]) {
    this.#model = model;
    this.#facts = facts;
    this.#rows = prompts;
  }

  start(): Promise<readonly Float32Array[]> {
    const padded = roundUp(longest(this.#rows));
    return scoresOf(this.#model, this.#facts, ...paddedCall(this.#rows, padded, {}));
  }

  next(tokens: readonly number[]): Promise<readonly Float32Array[]> {
    // A row that has ended may be fed further, as long as others go on.
    this.#rows = this.#rows.map((row, index) =>
      [...row, tokens[index] ?? 0].slice(-this.#facts.contextLength),
    );
    return this.start();
  }

  reorder(rows: readonly number[]): void {
    this.#rows = rows.map((row) => this.#rows[row] ?? []);
  }

  dispose(): void {
    this.#rows = [];
  }
}

/** Pads rows on the left. Shape: -> ids i32 [B, padded], and a mask and positions of the same shape. */
function paddedCall(
  rows: readonly (readonly number[])[],
  padded: number,
  call: ForwardCall,
): [ids: Tensor, call: ForwardCall] {
  const shape = [rows.length, padded];
  const perToken = (valueOf: (row: readonly number[], at: number) => number): Tensor =>
    integers(
      rows.flatMap((row) =>
        Array.from({ length: padded }, (_, at) => valueOf(row, at - padded + row.length)),
      ),
      shape,
    );
  return [
    perToken((row, at) => row[at] ?? 0),
    {
      ...call,
      attentionMask: perToken((_, at) => Number(at >= 0)),
      positionIds: perToken((_, at) => Math.max(0, at)),
    },
  ];
}

/** The scores of the token after the last one of each row. */
async function scoresOf(
  model: GeneratingModel,
  { hasStages, vocabSize }: ModelFacts,
  ids: Tensor,
  call: ForwardCall,
): Promise<readonly Float32Array[]> {
  // Rows are padded on the left, so that their last tokens are in one column.
  const logits = noGrad(() => evaluating(() => model.forward(ids, { ...call, logitsToKeep: 1 })));
  const whole = hasStages ? await onEveryRank(logits) : logits;
  const last = noGrad(() => whole.select(1, -1).to('f32'));
  const data = await last.data();
  const values = data instanceof Float32Array ? data : Float32Array.from(data, Number);
  const width = last.shape[1] ?? vocabSize;
  return Array.from({ length: ids.shape[0] ?? 0 }, (_, row) =>
    values.slice(row * width, row * width + vocabSize),
  );
}

function integer(value: number): Tensor {
  return integers([value], []);
}

function integers(values: readonly number[], shape: readonly number[]): Tensor {
  return fromData(Int32Array.from(values), shape, 'i32');
}

function longest(rows: readonly (readonly number[])[]): number {
  return rows.reduce((most, { length }) => Math.max(most, length), 0);
}

function roundUp(length: number): number {
  return Math.ceil(length / STEP) * STEP;
}
