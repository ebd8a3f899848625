import type { Tokenizer } from '@shardwise/data';
import type { ConstrainedText } from '../constraints/token-constraint.ts';
import { mostLikelyTokens } from '../sampling/log-probabilities.ts';
import { StopTexts } from '../sampling/stop-texts.ts';
import { TokenSampler } from '../sampling/token-sampler.ts';
import type { CheckedRequest, ChosenToken, FinishReason } from './generation-request.ts';

/** The text that continues a prompt: chooses its tokens, makes text of them, and knows when it ends. */
export class Continuation {
  readonly #request: CheckedRequest;
  readonly #sample: number;
  readonly #sampler: TokenSampler;
  readonly #texts: ReturnType<Tokenizer['decodeStream']> | null;
  readonly #stops: StopTexts;
  readonly #endTokens: ReadonlySet<number>;
  readonly #constrained: ConstrainedText | null;
  #count = 0;

  constructor(
    request: CheckedRequest,
    sample: number,
    seed: number,
    tokenizer: Tokenizer | null,
    eosTokenIds: readonly number[],
  ) {
    const { stop = [], stopTokenIds = eosTokenIds, ignoreEos = false, tokens } = request;
    this.#request = request;
    this.#sample = sample;
    this.#sampler = new TokenSampler(request, seed, tokens.length);
    this.#texts = tokenizer?.decodeStream({ skipSpecialTokens: true }) ?? null;
    this.#stops = new StopTexts(stop);
    this.#endTokens = new Set(ignoreEos ? [] : stopTokenIds);
    this.#constrained = request.constraint?.begin() ?? null;
  }

  /** How many tokens may come at most. */
  get left(): number {
    return this.#request.maxNewTokens - this.#count;
  }

  /** Whether choosing a token changes the scores. */
  get changesScores(): boolean {
    return this.#constrained !== null || this.#sampler.changesScores;
  }

  /**
   * What it would choose with these scores, `ahead` tokens behind the next one, if the request had no constraint. Changes
   * the scores. Shape: scores [V].
   */
  guess(scores: Float32Array, tokens: readonly number[], ahead: number): number {
    return this.#sampler.guess(scores, tokens, ahead);
  }

  /**
   * Chooses the next token. May change the scores. `tokens` are those until now. Throws DataError if the request's
   * constraint lets no token come.
   * Shape: scores, logProbabilities [V], the latter null if they were not asked for.
   */
  next(
    scores: Float32Array,
    logProbabilities: Float32Array | null,
    tokens: readonly number[],
  ): ChosenToken & { readonly token: number } {
    this.#constrained?.mask(scores, this.#endTokens);
    const token = this.#sampler.choose(scores, tokens);
    this.#count++;
    const isEnd = this.#endTokens.has(token);
    const added = isEnd ? '' : (this.#texts?.push(token) ?? '');
    if (!isEnd) this.#constrained?.accept(token);
    const isComplete = this.#constrained?.isComplete === true;
    const { text, ended } = this.#stops.push(added);
    const isFull = this.left <= 0;
    const finishReason = isEnd || ended || isComplete ? 'stop' : isFull ? 'length' : null;
    const whole = finishReason === null || ended ? text : text + this.#rest();
    return {
      sample: this.#sample,
      token,
      text: whole,
      logProbability: logProbabilities?.[token] ?? null,
      likely:
        logProbabilities === null
          ? []
          : mostLikelyTokens(logProbabilities, this.#request.logProbabilities ?? 0),
      finishReason,
    };
  }

  /** Ends without another token. */
  end(finishReason: FinishReason): ChosenToken {
    const { text } = this.#stops.push('');
    return {
      sample: this.#sample,
      token: null,
      text: text + this.#rest(),
      logProbability: null,
      likely: [],
      finishReason,
    };
  }

  /** The text that was held back. */
  #rest(): string {
    const { text, ended } = this.#stops.push(this.#texts?.end() ?? '');
    return ended ? text : text + this.#stops.end();
  }
}
