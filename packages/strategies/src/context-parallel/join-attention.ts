import { type AttentionOfPart, full, type Tensor } from '@shardwise/core/extend';

/** Attention to the keys of several parts. */
export interface JoinedAttention {
  /** Shape: f32 [B, H, T, E]. */
  readonly y: Tensor;
  /** Infinite for a query that sees no key. Shape: f32 [B, H, T]. */
  readonly logSumExp: Tensor;
}

/** Stands for the logarithm of no sum. Its exponential beside that of any sum is 0. */
const NOTHING = -1e30;

/** Joins attention to more keys to that to the keys before, in f32. `before` is null for the first part. */
export function joinAttention(
  before: JoinedAttention | null,
  { y, logSumExp }: AttentionOfPart,
): JoinedAttention {
  const own = { y: y.to('f32'), logSumExp: logSumExp.to('f32') };
  if (before === null) return own;
  const sums = [before.logSumExp, own.logSumExp].map(finite);
  const [first, second] = sums;
  if (first === undefined || second === undefined) throw new RangeError('two parts');
  const largest = first.maximum(second);
  const [ofFirst, ofSecond] = [first.sub(largest).exp(), second.sub(largest).exp()];
  const sum = ofFirst.add(ofSecond);
  const share = (part: Tensor): Tensor => part.div(sum).unsqueeze(-1);
  return {
    y: before.y.mul(share(ofFirst)).add(own.y.mul(share(ofSecond))),
    logSumExp: infiniteIfNone(largest.add(sum.log())),
  };
}

/** An infinite logarithm is that of no sum. */
function finite(logSumExp: Tensor): Tensor {
  return logSumExp.lt(Number.POSITIVE_INFINITY).where(logSumExp, NOTHING);
}

function infiniteIfNone(logSumExp: Tensor): Tensor {
  const infinite = full([], Number.POSITIVE_INFINITY, 'f32');
  return logSumExp.gt(NOTHING / 2).where(logSumExp, infinite);
}
