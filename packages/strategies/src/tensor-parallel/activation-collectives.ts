import { type DType, dtypes } from '@shardwise/core';
import { changeCollectives } from './change-placement.ts';
import type { StyleCollective } from './parallel-style.ts';
import { formatPlacement, type Placement } from './placement.ts';

export interface ActivationChange {
  /** Path of the module whose activation it is. */
  readonly module: string;
  readonly from: Placement;
  readonly to: Placement;
  /** Of the whole activation. */
  readonly elements: number;
  readonly dtype: DType;
}

/** What changing the placement of an activation communicates; bytes are of the whole activation. */
export function activationCollectives(change: ActivationChange): StyleCollective[] {
  const { module, from, to, elements, dtype } = change;
  const found = changeCollectives(from, to);
  const redistribution = { module, from: formatPlacement(from), to: formatPlacement(to) };
  return (['forward', 'backward'] as const).flatMap((when) => {
    const operation = found[when];
    const bytes = elements * dtypes[dtype].bytes;
    return operation === null ? [] : [{ operation, when, bytes, redistribution }];
  });
}
