import {
  type ActivationLayout,
  collectivesOfMove,
  type DType,
  dtypes,
  formatAxisLayout,
  moveOver,
} from '@shardwise/core/extend';
import type { StyleCollective } from './parallel-style.ts';

export interface RedistributedActivation {
  /** The path of the module that has the activation. */
  readonly module: string;
  readonly from: ActivationLayout;
  readonly to: ActivationLayout;
  /** The number of elements of the whole activation. */
  readonly elements: number;
  readonly dtype: DType;
  /** Whether the backward pass repeats the collective of the forward pass. */
  readonly again?: boolean;
}

/** Returns the collectives of redistributing an activation. Their bytes are those of the whole activation. */
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
