import type { Tokenizer } from '@shardwise/data';
import {
  BeamSearch,
  type BeamStep,
  type LogitsProcessor,
  logSoftmax,
  processorsOf,
} from '@shardwise/models';
import type { Sequence } from '../scheduling/sequence.ts';
import type { CheckedRequest, FinishReason, ChosenToken } from './generation-request.ts';

/**
 * The beams of a request: sequences that go on together. A step computes some of them, and others may wait because their
 * blocks were taken. When all have their scores, the search chooses how they go on.
 */
export class BeamGroup {
  readonly #search: BeamSearch;
  readonly #processors: readonly LogitsProcessor[];
  readonly #endTokens: ReadonlySet<number>;
  readonly #samples: number;
  readonly #tokenizer: Tokenizer | null;
  #sequences: readonly Sequence[] = [];
  readonly #scores = new Map<Sequence, Float32Array>();

  constructor(
    request: CheckedRequest,
    eosTokenIds: readonly number[],
    tokenizer: Tokenizer | null,
  ) {
    const { stopTokenIds = eosTokenIds, ignoreEos = false, maxNewTokens, samples = 1 } = request;
    const { numBeams = 1, lengthPenalty = 1, earlyStopping = false } = request;
    const endTokens = new Set(ignoreEos ? [] : stopTokenIds);
    this.#endTokens = endTokens;
    this.#samples = samples;
    this.#tokenizer = tokenizer;
    const { repetitionPenalty = 1 } = request;
    const settings = { temperature: 1, topK: null, topP: 1, minP: 0, repetitionPenalty };
    this.#processors = processorsOf(settings, false);
    this.#search = new BeamSearch({
      numBeams,
      lengthPenalty,
      earlyStopping,
      endTokens: endTokens.size,
      maxNewTokens,
      hasEnded: (added) => added.length >= maxNewTokens || endTokens.has(added.at(-1) ?? -1),
    });
  }

  get sequences(): readonly Sequence[] {
    return this.#sequences;
  }

  get isDone(): boolean {
    return this.#search.isDone;
  }

  /** Says which sequences are the beams. All of them have the same tokens. */
  begin(sequences: readonly Sequence[]): void {
    this.#sequences = sequences;
  }

  /**
   * Takes the scores behind the last token of a beam. Returns how the beams go on, or null while others have no scores.
   * Shape: scores [V].
   */
  take(sequence: Sequence, scores: Float32Array): BeamStep | null {
    const own = logSoftmax(scores);
    for (const process of this.#processors) process(own, sequence.tokens);
    this.#scores.set(sequence, own);
    const all = this.#sequences.flatMap((each) => this.#scores.get(each) ?? []);
    if (all.length < this.#sequences.length) return null;
    this.#scores.clear();
    return this.#search.advance(all);
  }

  /** The texts of the best beams, the best one first. `reason` is why those end that have no end token. */
  *texts(reason: FinishReason): Generator<ChosenToken> {
    for (const [sample, tokens] of this.#search.rows.slice(0, this.#samples).entries()) {
      yield* this.#tokensOf(sample, tokens, reason);
    }
  }

  *#tokensOf(
    sample: number,
    tokens: readonly number[],
    reason: FinishReason,
  ): Generator<ChosenToken> {
    const texts = this.#tokenizer?.decodeStream({ skipSpecialTokens: true });
    const common = { sample, logProbability: null, likely: [] };
    if (tokens.length === 0) yield { ...common, token: null, text: '', finishReason: reason };
    for (const [at, token] of tokens.entries()) {
      const isEnd = this.#endTokens.has(token);
      const isLast = at === tokens.length - 1;
      const added = isEnd ? '' : (texts?.push(token) ?? '');
      const text = isLast ? added + (texts?.end() ?? '') : added;
      const finishReason = isLast ? (isEnd ? 'stop' : reason) : null;
      yield { ...common, token, text, finishReason };
    }
  }
}
