import type { Op, OpParams } from '../../spec/op.ts';
import type { DType } from '../../spec/dtype.ts';

/** An op of the graph, or of a plan. */
interface Travelling {
  readonly op: Op;
  readonly params: OpParams[Op];
  readonly dtype: DType;
}

/** Whether two all-reduces, of which one follows the other, travel as one message. */
export function isOneMessage(first: Travelling, next: Travelling): boolean {
  if (first.op !== 'allReduce' || next.op !== 'allReduce' || next.dtype !== first.dtype)
    return false;
  const [one, other] = [first.params, next.params];
  if (!('bucket' in one) || !('pass' in one) || !('bucket' in other) || !('pass' in other))
    return false;
  const isSame = other.axis === one.axis && other.pass === one.pass;
  return other.bucket >= 0 && other.bucket === one.bucket && isSame;
}
