import { expNegative, maximum } from './powers.ts';

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
function penalizeRepetition(penalty: number): LogitsProcessor {
  return (scores, tokens) => {
    for (const token of new Set(tokens)) {
      const score = scores[token] ?? 0;
      scores[token] = score < 0 ? score * penalty : score / penalty;
    }
  };
}

function scaleByTemperature(temperature: number): LogitsProcessor {
  return (scores) => {
    for (let token = 0; token < scores.length; token++) {
      scores[token] = (scores[token] ?? 0) / temperature;
    }
  };
}

/** Keeps the k highest scores, and those that equal the lowest of them. */
function keepTopK(k: number): LogitsProcessor {
  return (scores) => {
    if (k >= scores.length) return;
    const least = leastOfHighest(scores, k);
    remove(scores, (_, score) => score < least);
  };
}

/** Keeps the most likely tokens whose probabilities sum to p or more (nucleus sampling). */
function keepTopP(p: number): LogitsProcessor {
  return (scores) => {
    const probabilities = softmax(scores);
    // Together, tokens below this share of the vocabulary are less than 1 - p. What is left is a small part to sort.
    const share = (1 - p) / scores.length;
    const likely: number[] = [];
    let sum = 0;
    for (let token = 0; token < scores.length; token++) {
      const probability = probabilities[token] ?? 0;
      if (probability >= share) likely.push(token);
      else {
        sum += probability;
        scores[token] = Number.NEGATIVE_INFINITY;
      }
    }
    likely.sort((a, b) => (scores[a] ?? 0) - (scores[b] ?? 0) || a - b);
    for (const token of likely.slice(0, -1)) {
      sum += probabilities[token] ?? 0;
      if (sum > 1 - p) break;
      scores[token] = Number.NEGATIVE_INFINITY;
    }
  };
}

/** Keeps tokens that are at least p times as likely as the most likely one. */
function keepMinP(p: number): LogitsProcessor {
  return (scores) => {
    const probabilities = softmax(scores);
    const least = p * probabilities.reduce((most, each) => Math.max(most, each), 0);
    remove(scores, (token) => (probabilities[token] ?? 0) < least);
  };
}

/** The k-th highest score. */
function leastOfHighest(scores: Float32Array, k: number): number {
  // A heap of the highest until now, the least of them first. Few scores of a vocabulary get into it.
  const heap = scores.slice(0, k).sort();
  for (let token = k; token < scores.length; token++) {
    const score = scores[token] ?? 0;
    if (score > (heap[0] ?? 0)) replaceLeast(heap, score);
  }
  return heap[0] ?? Number.NEGATIVE_INFINITY;
}

function replaceLeast(heap: Float32Array, score: number): void {
  let at = 0;
  for (;;) {
    const [left, right] = [heap[2 * at + 1] ?? Infinity, heap[2 * at + 2] ?? Infinity];
    const least = Math.min(left, right);
    if (!(least < score)) break;
    heap[at] = least;
    at = 2 * at + (left <= right ? 1 : 2);
  }
  heap[at] = score;
}

function remove(scores: Float32Array, isRemoved: (token: number, score: number) => boolean): void {
  for (let token = 0; token < scores.length; token++) {
    if (isRemoved(token, scores[token] ?? 0)) scores[token] = Number.NEGATIVE_INFINITY;
  }
}

// Loops take a tenth of the time of `from` and `reduce`.

/** Shape: [V] -> [V]. */
function softmax(scores: Float32Array): Float64Array {
  const powers = new Float64Array(scores.length);
  const most = maximum(scores);
  let sum = 0;
  for (let token = 0; token < scores.length; token++) {
    const power = expNegative((scores[token] ?? 0) - most);
    powers[token] = power;
    sum += power;
  }
  for (let token = 0; token < powers.length; token++) powers[token] = (powers[token] ?? 0) / sum;
  return powers;
}

/** Shape: [V] -> [V]. */
export function logSoftmax(scores: Float32Array): Float32Array {
  const most = maximum(scores);
  let sum = 0;
  for (let token = 0; token < scores.length; token++) {
    sum += Math.exp((scores[token] ?? 0) - most);
  }
  const logarithm = Math.log(sum);
  return scores.map((score) => score - most - logarithm);
}
