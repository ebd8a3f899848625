import { aggregate, type Aggregation } from '../src/local-sgd/aggregation/aggregate.ts';
import { outerStep } from '../src/local-sgd/outer-step.ts';

/** Makes the vector of an attacker who knows those of all others, as byzfl does. Shape: W times [n] -> [n]. */
type Attack = (honest: readonly Float32Array[]) => Float32Array;

function meanOf(vectors: readonly Float32Array[]): Float32Array {
  return aggregate(vectors, { rule: 'mean', faulty: 0 });
}

export const attacks = {
  signFlipping: (honest) => meanOf(honest).map((value) => -value),
  innerProductManipulation: (honest) => meanOf(honest).map((value) => -2 * value),
  /** The mean plus ten standard deviations of each element. */
  aLittleIsEnough: (honest) => {
    return meanOf(honest).map((mean, at) => {
      const squares = honest.reduce((sum, each) => sum + ((each[at] ?? 0) - mean) ** 2, 0);
      return mean + 10 * Math.sqrt(squares / (honest.length - 1));
    });
  },
} as const satisfies Readonly<Record<string, Attack>>;

const [features, classes, workers] = [10, 4, 5];
const [rowsOfWorker, batchRows, inner, rounds] = [2000, 20, 4, 8];

interface Row {
  readonly x: readonly number[];
  readonly y: number;
}

/** Rows whose class is the largest of linear scores with noise. */
function makeRows(): readonly (readonly Row[])[] {
  let state = 1;
  const uniform = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const normal = (): number =>
    Math.sqrt(-2 * Math.log(uniform() + 1e-12)) * Math.cos(2 * Math.PI * uniform());
  const truth = Float64Array.from({ length: features * classes }, normal);
  const row = (): Row => {
    const x = Array.from({ length: features }, normal);
    const scores = scoresOf(truth, x).map((score) => score + normal());
    return { x, y: scores.indexOf(Math.max(...scores)) };
  };
  return Array.from({ length: workers }, () => Array.from({ length: rowsOfWorker }, row));
}

/** Shape: weights [features, classes], x [features] -> [classes]. */
function scoresOf(weights: Float32Array | Float64Array, x: readonly number[]): number[] {
  return Array.from({ length: classes }, (_, label) =>
    x.reduce((sum, value, at) => sum + value * (weights[at * classes + label] ?? 0), 0),
  );
}

/** The mean cross entropy of rows, and its gradient. */
function lossOf(
  weights: Float32Array,
  rows: readonly Row[],
): { readonly loss: number; readonly gradient: Float64Array } {
  const gradient = new Float64Array(weights.length);
  let loss = 0;
  for (const { x, y } of rows) {
    const scores = scoresOf(weights, x);
    const largest = Math.max(...scores);
    const terms = scores.map((score) => Math.exp(score - largest));
    const sum = terms.reduce((all, each) => all + each);
    loss -= Math.log((terms[y] ?? 0) / sum) / rows.length;
    for (const [label, term] of terms.entries()) {
      const error = (term / sum - (label === y ? 1 : 0)) / rows.length;
      for (const [at, value] of x.entries()) {
        const place = at * classes + label;
        gradient[place] = (gradient[place] ?? 0) + error * value;
      }
    }
  }
  return { loss, gradient };
}

/** What a worker has learned in a round: an outer gradient. */
function outerGradient(weights: Float32Array, rows: readonly Row[], round: number): Float32Array {
  const own = weights.slice();
  for (let step = 0; step < inner; step++) {
    const first = (round * inner + step) * batchRows;
    const batch = Array.from({ length: batchRows }, (_, at) => rows[(first + at) % rows.length]);
    const { gradient } = lossOf(
      own,
      batch.filter((row) => row !== undefined),
    );
    for (const [at, value] of gradient.entries()) own[at] = (own[at] ?? 0) - 0.5 * value;
  }
  return weights.map((value, at) => value - (own[at] ?? 0));
}

const data = makeRows();

/** The loss on the rows of the honest workers after a training of five of which one attacks. Null: none does. */
export function lossUnder(attack: string | null, aggregation: Aggregation): number {
  const honest = data.slice(0, -1);
  const last = data.at(-1) ?? [];
  const flipped = last.map(({ x, y }) => ({ x, y: classes - 1 - y }));
  const weights = new Float32Array(features * classes);
  const momentum = new Float32Array(features * classes);
  const make = Object.entries(attacks).find(([name]) => name === attack)?.[1];
  for (let round = 0; round < rounds; round++) {
    const own = honest.map((rows) => outerGradient(weights, rows, round));
    const other =
      make?.(own) ?? outerGradient(weights, attack === 'labelFlipping' ? flipped : last, round);
    const mean = aggregate([...own, other], aggregation);
    outerStep(weights, mean, momentum, { lr: 0.7, momentum: 0.9, nesterov: true });
  }
  return lossOf(weights, honest.flat()).loss;
}
