import { dtypes, elementCount, type HalfDType } from '@shardwise/core/extend';
import type { StageEdge } from '../pipeline-schedule/schedule.ts';
import type { BuiltBatch } from './build-microbatches.ts';
import { numberedCrossings } from './forward-drafts.ts';

/** Returns the edges between stages, with the bytes that cross them in the first microbatch. */
export function edgesOf(
  { microbatches }: BuiltBatch,
  activationDtype: HalfDType | null,
): StageEdge[] {
  const [first = []] = numberedCrossings(microbatches, activationDtype);
  const edges = Map.groupBy(first, ({ from, to }) => `${from} ${to}`);
  return [...edges.values()].flatMap((crossings) => {
    const [any] = crossings;
    if (any === undefined) return [];
    const { from, to } = any;
    const bytes = crossings.reduce(
      (sum, { node, sentAs }) =>
        sum + elementCount(node.shape) * dtypes[sentAs ?? node.dtype].bytes,
      0,
    );
    return [{ from, to, gradient: crossings.some(({ gradient }) => gradient), bytes }];
  });
}
