import {
  allReduce,
  axisOf,
  checkOptions,
  currentSession,
  DataError,
  fromData,
  noGrad,
  option,
  type OptionRule,
  withCollectiveName,
} from '@shardwise/core/extend';
import { type JoinOptions, joinRules, unequalBatches } from './join.ts';

/** A batch of `joinBatches`. */
export interface JoinedBatch<Batch> {
  readonly batch: Batch;
  /** What the loss of the batch is multiplied by: 1, or 0 on a rank that has run out of batches. */
  readonly weight: number;
}

const iterable: OptionRule<object> = {
  fits: (value): value is object =>
    typeof value === 'object' &&
    value !== null &&
    (Symbol.iterator in value || Symbol.asyncIterator in value),
  expected: 'something to iterate over, such as a DataLoader',
};
const batchRules = { batches: option.required(iterable) };

/**
 * Gives the ranks of an axis equally many batches, so that ranks that have different numbers of them can train with any
 * strategy. A rank that has run out gets its last batch again, with weight 0, until all have run out. It takes part in
 * all messages of the others and updates its parts of the parameters, and its batch adds nothing to their gradients:
 *
 *     for await (const { batch, weight } of joinBatches(loader)) {
 *       optimizer.zeroGrad();
 *       parallel.forward(batch).mean().mul(weight).backward();
 *       await optimizer.step();
 *     }
 *
 * With `divideByInitialWorldSize: false`, the weight is such that the mean over all ranks is the mean over those that
 * have a batch. A layer that keeps statistics, such as batch norm, counts the repeated batch. Each batch costs one small
 * all-reduce. Throws DataError on all ranks if one of them has no batch at all, and with `throwOnEarlyTermination` as
 * soon as one has run out.
 */
export async function* joinBatches<Batch>(
  batches: Iterable<Batch> | AsyncIterable<Batch>,
  options: JoinOptions = {},
): AsyncGenerator<JoinedBatch<Batch>, void, void> {
  checkOptions('joinBatches', options, joinRules);
  checkOptions<{ batches: object }>('joinBatches', { batches }, batchRules);
  const { axis = 'dp', divideByInitialWorldSize = true, throwOnEarlyTermination = false } = options;
  const { size } = axisOf(currentSession().mesh, axis);
  const own = iteratorOf(batches);
  let latest: { readonly batch: Batch } | null = null;
  let isOut = false;
  let isFirst = true;
  try {
    for (;;) {
      const next = isOut ? null : await own.next();
      if (next?.done === false) latest = { batch: next.value };
      else isOut = true;
      const active = await countOf(!isOut, axis);
      if (active === 0) return;
      if (active < size && throwOnEarlyTermination) throw unequalBatches(size);
      // All ranks see it, because the counts of the first batch say it.
      if (active < size && isFirst) throw noBatch(size, active);
      isFirst = false;
      if (latest === null) throw new RangeError('a rank that never had a batch');
      yield { ...latest, weight: isOut ? 0 : divideByInitialWorldSize ? 1 : size / active };
    }
  } finally {
    if (!isOut) await own.return?.();
  }
}

function iteratorOf<Batch>(
  batches: Iterable<Batch> | AsyncIterable<Batch>,
): Iterator<Batch> | AsyncIterator<Batch> {
  return Symbol.asyncIterator in batches
    ? batches[Symbol.asyncIterator]()
    : batches[Symbol.iterator]();
}

/** The number of ranks for which `flag` is true. */
async function countOf(flag: boolean, axis: string): Promise<number> {
  const own = fromData(Float32Array.of(flag ? 1 : 0), [1], 'f32');
  const sum = noGrad(() =>
    withCollectiveName('who has a batch in joinBatches', () => allReduce(own, axis)),
  );
  return sum.item();
}

function noBatch(size: number, active: number): DataError {
  return new DataError(
    {
      asked: `at least one batch on each of ${size} ranks`,
      found: `${active} of them have one`,
      todo: 'Have fewer ranks, or give each of them a part of the data',
    },
    { ranks: size, active },
  );
}
