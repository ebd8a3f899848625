import { type DType, dtypes } from '@shardwise/core/extend';
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
  /** Whether backward does again what forward did. */
  readonly again?: boolean;
}

/** What changing the placement of an activation communicates; bytes are of the whole activation. */
export function activationCollectives(change: ActivationChange): StyleCollective[] {
  const { module, from, to, elements, dtype, again = false } = change;
  const found = changeCollectives(from, to);
  const redistribution = { module, from: formatPlacement(from), to: formatPlacement(to) };
  const bytes = elements * dtypes[dtype].bytes;
  const passes = [
    ['forward', found.forward],
    ['backward', again ? found.forward : null],
    ['backward', found.backward],
  ] as const;
  return passes.flatMap(([when, operation]) =>
    operation === null ? [] : [{ operation, when, bytes, redistribution }],
  );
}
