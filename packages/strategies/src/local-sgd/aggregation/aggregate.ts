/** How ranks make one outer gradient of those of all. */
export type AggregationRule =
  | 'mean'
  | 'trimmedMean'
  | 'median'
  | 'krum'
  | 'multiKrum'
  | 'nearestNeighborMixing';

/** A rule, and the number of ranks whose outer gradients may be anything. */
export interface Aggregation {
  readonly rule: AggregationRule;
  readonly faulty: number;
}

/**
 * Makes one vector of those of all ranks, so that `faulty` of them can be anything. `vectors` are in the order of the
 * ranks, and there are more than twice as many as faulty ones. The result has the same bits wherever it is computed.
 * Shape: W times [n] -> [n].
 */
export function aggregate(
  vectors: readonly Float32Array[],
  { rule, faulty }: Aggregation,
): Float32Array {
  return rules[rule](vectors, faulty);
}

const rules = {
  mean: (vectors) => trimmedMean(vectors, 0),
  trimmedMean,
  median: (vectors) => trimmedMean(vectors, Math.ceil(vectors.length / 2) - 1),
  krum: (vectors, faulty) => nearest(vectors, faulty)[0] ?? new Float32Array(0),
  multiKrum: (vectors, faulty) =>
    trimmedMean(nearest(vectors, faulty).slice(0, vectors.length - faulty), 0),
  nearestNeighborMixing: (vectors, faulty) => trimmedMean(mixed(vectors, faulty), faulty),
} satisfies Readonly<
  Record<AggregationRule, (vectors: readonly Float32Array[], faulty: number) => Float32Array>
>;

/**
 * The mean of each coordinate without its `faulty` smallest and largest values (Yin et al. 2018). If only one or two are
 * left, it is the median. A value that is no number counts as the largest.
 */
function trimmedMean(vectors: readonly Float32Array[], faulty: number): Float32Array {
  const count = vectors.length;
  const result = new Float32Array(vectors[0]?.length ?? 0);
  const values = new Float64Array(count);
  for (let at = 0; at < result.length; at++) {
    for (const [rank, vector] of vectors.entries()) values[rank] = vector[at] ?? 0;
    // Sorting puts NaN last.
    if (faulty > 0) values.sort();
    let sum = 0;
    for (let rank = faulty; rank < count - faulty; rank++) sum += values[rank] ?? 0;
    result[at] = sum / (count - 2 * faulty);
  }
  return result;
}

/** The mean of vectors, each of which counts by its weight. Shape: W times [n] -> [n]. */
export function weightedMean(
  vectors: readonly Float32Array[],
  weights: readonly number[],
): Float32Array {
  const all = weights.reduce((sum, each) => sum + each, 0);
  const result = new Float32Array(vectors[0]?.length ?? 0);
  for (let at = 0; at < result.length; at++) {
    let sum = 0;
    for (const [rank, vector] of vectors.entries()) sum += (weights[rank] ?? 0) * (vector[at] ?? 0);
    result[at] = sum / all;
  }
  return result;
}

/**
 * Sorts vectors by the sum of the squared distances to their count - faulty - 1 nearest neighbours (Blanchard et al.
 * 2017). Of equal ones, that of the first rank comes first. A vector that is not finite is infinitely far from all.
 */
function nearest(vectors: readonly Float32Array[], faulty: number): readonly Float32Array[] {
  const neighbours = vectors.length - faulty - 1;
  return vectors
    .map((own) => {
      const distances = Float64Array.from(
        vectors.filter((other) => other !== own),
        (other) => squaredDistance(own, other),
      ).sort();
      const sum = distances.subarray(0, neighbours).reduce((all, each) => all + each, 0);
      return { own, sum };
    })
    .sort((a, b) => (a.sum === b.sum ? 0 : a.sum - b.sum))
    .map(({ own }) => own);
}

/**
 * Replaces each vector by the mean of itself and its count - faulty - 1 nearest neighbours (Allouah et al. 2023). One that
 * is not finite stays so, and is in no other mean.
 */
function mixed(vectors: readonly Float32Array[], faulty: number): readonly Float32Array[] {
  return vectors.map((own) => {
    const others = vectors
      .filter((other) => other !== own)
      .map((other) => ({ other, distance: squaredDistance(own, other) }))
      .sort((a, b) => (a.distance === b.distance ? 0 : a.distance - b.distance))
      .slice(0, vectors.length - faulty - 1)
      .map(({ other }) => other);
    return trimmedMean([own, ...others], 0);
  });
}

function squaredDistance(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += ((a[at] ?? 0) - (b[at] ?? 0)) ** 2;
  return Number.isNaN(sum) ? Number.POSITIVE_INFINITY : sum;
}
