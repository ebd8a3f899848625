import { Generator } from '@shardwise/core/extend';
import { drawToken, type LogitsProcessor, mostLikely, processorsOf } from '@shardwise/models';
import type { SamplingOptions } from './sampling-options.ts';

/** Chooses the tokens of one sequence. Its draws depend on its seed and on its own tokens, and on no other sequence. */
export class TokenSampler {
  readonly #processors: readonly LogitsProcessor[];
  readonly #penalize: LogitsProcessor | null;
  readonly #generator: Generator | null;
  readonly #promptLength: number;
  /** Numbers that were drawn for tokens to come. The first one is for the next token. */
  readonly #drawn: number[] = [];

  /** `promptLength` is the number of tokens that were not generated. */
  constructor(options: SamplingOptions, seed: number, promptLength: number) {
    const { temperature = 1, topK, topP = 1, minP = 0, repetitionPenalty = 1 } = options;
    const draws = temperature > 0;
    this.#processors = processorsOf(
      { temperature: draws ? temperature : 1, topK: topK ?? null, topP, minP, repetitionPenalty },
      draws,
    );
    this.#penalize = penalties(options);
    this.#generator = draws ? new Generator(seed) : null;
    this.#promptLength = promptLength;
  }

  /** Whether choosing a token changes the scores. */
  get changesScores(): boolean {
    return this.#penalize !== null || this.#processors.length > 0;
  }

  /** The next token. May change the scores. `tokens` are those of the sequence until now. Shape: scores [V]. */
  choose(scores: Float32Array, tokens: readonly number[]): number {
    const token = this.guess(scores, tokens, 0);
    this.#drawn.shift();
    return token;
  }

  /**
   * What it would choose with these scores, `ahead` tokens behind the next one, as a later `choose` in that place uses
   * the same number. May change the scores. Shape: scores [V].
   */
  guess(scores: Float32Array, tokens: readonly number[], ahead: number): number {
    this.#penalize?.(scores, tokens.slice(this.#promptLength));
    for (const process of this.#processors) process(scores, tokens);
    const generator = this.#generator;
    if (generator === null) return mostLikely(scores);
    while (this.#drawn.length <= ahead) this.#drawn.push(...generator.uniform(1, 0, 1));
    const drawn = Float32Array.of(this.#drawn[ahead] ?? 0);
    return drawToken(scores, { uniform: () => drawn });
  }
}

/** The penalties of OpenAI, by how often a token was generated. Null for none. */
function penalties({
  frequencyPenalty = 0,
  presencePenalty = 0,
}: SamplingOptions): LogitsProcessor | null {
  if (frequencyPenalty === 0 && presencePenalty === 0) return null;
  return (scores, generated) => {
    const counts = new Map<number, number>();
    for (const token of generated) counts.set(token, (counts.get(token) ?? 0) + 1);
    for (const [token, count] of counts) {
      scores[token] = (scores[token] ?? 0) - frequencyPenalty * count - presencePenalty;
    }
  };
}
