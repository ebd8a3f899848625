import { dtypes, type DType } from '@shardwise/core';
import { changeCollectives } from './change-placement.ts';
import type { StyleCollective } from './parallel-style.ts';
import type { Placement } from './placement.ts';

/** What changing the placement of an activation communicates; bytes are of the whole activation. */
export function activationCollectives(
  from: Placement,
  to: Placement,
  elements: number,
  dtype: DType,
): StyleCollective[] {
  const found = changeCollectives(from, to);
  return (['forward', 'backward'] as const).flatMap((when) => {
    const operation = found[when];
    return operation === null ? [] : [{ operation, when, bytes: elements * dtypes[dtype].bytes }];
  });
}
