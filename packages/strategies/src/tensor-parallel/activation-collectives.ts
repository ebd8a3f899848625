import { type DType, dtypes } from '@shardwise/core/extend';
import { collectivesOfMove, moveOver } from '../layout/moves.ts';
import type { StyleCollective } from './parallel-style.ts';
import { formatAxisLayout, type ActivationLayout } from '../layout/axis-layout.ts';

export interface RedistributedActivation {
  /** Path of the module whose activation it is. */
  readonly module: string;
  readonly from: ActivationLayout;
  readonly to: ActivationLayout;
  /** How many elements the whole activation has. */
  readonly elements: number;
  readonly dtype: DType;
  /** Whether backward does again what forward did. */
  readonly again?: boolean;
}

/** What redistributing an activation communicates; bytes are of the whole activation. */
export function activationCollectives(change: RedistributedActivation): StyleCollective[] {
  const { module, from, to, elements, dtype, again = false } = change;
  const found = collectivesOfMove(moveOver('', from, to));
  const redistribution = { module, from: formatAxisLayout(from), to: formatAxisLayout(to) };
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
