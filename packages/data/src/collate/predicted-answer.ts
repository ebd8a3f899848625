import { checkOptions, DataError, option, type OptionRules } from '@shardwise/core/extend';
import type { QuestionAnsweringSample } from './question-answering.ts';

/** What a model says of a sample. Logits of padding after its tokens are passed over. Shape: [t] each. */
export interface ScoredSample {
  readonly sample: QuestionAnsweringSample;
  /** How likely each token is the first one of the answer. */
  readonly startLogits: ArrayLike<number>;
  /** How likely each token is the last one of the answer. */
  readonly endLogits: ArrayLike<number>;
}

/** An answer that a model has marked in a context. */
export interface PredictedAnswer {
  readonly text: string;
  /** Where it begins in the context, in UTF-16 units. */
  readonly start: number;
  /** The sum of the logits of its first and its last token. */
  readonly score: number;
}

/** Options of `predictedAnswer`. */
export interface PredictedAnswerOptions {
  /** The most tokens of an answer. Default: 30. */
  readonly maxAnswerTokens?: number;
  /**
   * There is no answer if the logits of [CLS] together exceed those of the best answer by more than this
   * (`null_score_diff_threshold` of transformers). Default: there always is an answer.
   */
  readonly nullThreshold?: number;
}

const rules: OptionRules<PredictedAnswerOptions> = {
  maxAnswerTokens: option.integer(1),
  nullThreshold: option.number,
};

/**
 * The best answer of all samples of a context: the first and the last token whose logits have the highest sum, with the
 * last one not before the first one. Null if there is none. Throws DataError for logits that are NaN, or fewer than
 * the tokens of their sample.
 */
export function predictedAnswer(
  context: string,
  scored: readonly ScoredSample[],
  options: PredictedAnswerOptions = {},
): PredictedAnswer | null {
  checkOptions('predictedAnswer', options, rules);
  const { maxAnswerTokens = 30, nullThreshold } = options;
  let best: PredictedAnswer | null = null;
  let nullScore = Infinity;
  for (const { sample, startLogits, endLogits } of scored) {
    const { offsets } = sample;
    requireLogits(startLogits, offsets.length);
    requireLogits(endLogits, offsets.length);
    const logit = (logits: ArrayLike<number>, token: number): number => logits[token] ?? NaN;
    // Of several samples, the one that most wants an answer decides whether there is none.
    nullScore = Math.min(nullScore, logit(startLogits, 0) + logit(endLogits, 0));
    for (const [first, from] of offsets.entries()) {
      if (from === undefined) continue;
      const end = Math.min(offsets.length, first + maxAnswerTokens);
      for (let last = first; last < end; last++) {
        const to = offsets[last];
        if (to === undefined) continue;
        const score = logit(startLogits, first) + logit(endLogits, last);
        if (best !== null && score <= best.score) continue;
        best = { text: context.slice(from[0], to[1]), start: from[0], score };
      }
    }
  }
  const isNone =
    best !== null && nullThreshold !== undefined && nullScore - best.score > nullThreshold;
  return isNone ? null : best;
}

function requireLogits(logits: ArrayLike<number>, tokens: number): void {
  const isNaN = Array.from(logits).slice(0, tokens).some(Number.isNaN);
  if (logits.length >= tokens && !isNaN) return;
  throw new DataError(
    {
      asked: `the answer in a sample of ${tokens} tokens`,
      found: isNaN ? 'a logit that is NaN' : `${logits.length} logits`,
      todo: isNaN
        ? 'See why the model returns NaN'
        : 'Give the logits of all tokens, in the order of the samples',
    },
    { tokens, logits: logits.length },
  );
}
