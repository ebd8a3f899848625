/** Changes the scores of the next token of a row in place. `tokens` are those of the row until now. */
export type LogitsProcessor = (scores: Float32Array, tokens: readonly number[]) => void;

/** The settings of processors, with the names of transformers. */
export interface ProcessorSettings {
  readonly temperature: number;
  readonly topK: number | null;
  readonly topP: number;
  readonly minP: number;
  readonly repetitionPenalty: number;
}

/** Returns the processors that the settings ask for, in the order of transformers. */
export function processorsOf(
  settings: ProcessorSettings,
  doSample: boolean,
): readonly LogitsProcessor[] {
  const { temperature, topK, topP, minP, repetitionPenalty } = settings;
  return [
    ...(repetitionPenalty === 1 ? [] : [penalizeRepetition(repetitionPenalty)]),
    ...(doSample && temperature !== 1 ? [scaleByTemperature(temperature)] : []),
    ...(doSample && topK !== null ? [keepTopK(topK)] : []),
    ...(doSample && topP < 1 ? [keepTopP(topP)] : []),
    ...(doSample && minP > 0 ? [keepMinP(minP)] : []),
  ];
}

/** Divides the positive scores of tokens that occur by the penalty, and multiplies the negative ones (CTRL). */
export function penalizeRepetition(penalty: number): LogitsProcessor {
  return (scores, tokens) => {
    for (const token of new Set(tokens)) {
      const score = scores[token] ?? 0;
      scores[token] = score < 0 ? score * penalty : score / penalty;
    }
  };
}

export function scaleByTemperature(temperature: number): LogitsProcessor {
  return (scores) => {
    for (let token = 0; token < scores.length; token++) {
      scores[token] = (scores[token] ?? 0) / temperature;
    }
  };
}

/** Keeps the k highest scores, and those that equal the lowest of them. */
export function keepTopK(k: number): LogitsProcessor {
  return (scores) => {
    const least = scores.toSorted()[scores.length - k] ?? Number.NEGATIVE_INFINITY;
    remove(scores, (_, score) => score < least);
  };
}

/** Keeps the most likely tokens whose probabilities sum to p or more (nucleus sampling). */
export function keepTopP(p: number): LogitsProcessor {
  return (scores) => {
    const probabilities = softmax(scores);
    const order = Array.from(scores.keys()).toSorted(
      (a, b) => (scores[a] ?? 0) - (scores[b] ?? 0) || a - b,
    );
    const removed = new Set<number>();
    let sum = 0;
    for (const token of order.slice(0, -1)) {
      sum += probabilities[token] ?? 0;
      if (sum > 1 - p) break;
      removed.add(token);
    }
    remove(scores, (token) => removed.has(token));
  };
}

/** Keeps tokens that are at least p times as likely as the most likely one. */
export function keepMinP(p: number): LogitsProcessor {
  return (scores) => {
    const probabilities = softmax(scores);
    const least = p * probabilities.reduce((most, each) => Math.max(most, each), 0);
    remove(scores, (token) => (probabilities[token] ?? 0) < least);
  };
}

function remove(scores: Float32Array, isRemoved: (token: number, score: number) => boolean): void {
  for (let token = 0; token < scores.length; token++) {
    if (isRemoved(token, scores[token] ?? 0)) scores[token] = Number.NEGATIVE_INFINITY;
  }
}

/** Shape: [V] -> [V]. */
export function softmax(scores: Float32Array): Float64Array {
  const most = maximum(scores);
  const powers = Float64Array.from(scores, (score) => Math.exp(score - most));
  const sum = powers.reduce((total, each) => total + each, 0);
  return powers.map((each) => each / sum);
}

/** Shape: [V] -> [V]. */
export function logSoftmax(scores: Float32Array): Float32Array {
  const most = maximum(scores);
  const sum = scores.reduce((total, score) => total + Math.exp(score - most), 0);
  return scores.map((score) => score - most - Math.log(sum));
}

function maximum(scores: Float32Array): number {
  return scores.reduce((most, score) => Math.max(most, score), Number.NEGATIVE_INFINITY);
}
