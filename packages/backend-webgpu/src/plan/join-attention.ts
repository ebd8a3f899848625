import type { Instruction } from '@shardwise/core/spec';
import { type AttentionRoots, isAttention } from '../kernels/attention.ts';
import type { AttentionInstruction } from '../kernels/attention-parts.ts';
import { countOf, type Values } from '../program/values.ts';

/** The values that one kernel makes. */
export interface JoinedAttention {
  readonly roots: AttentionRoots;
  /** The values among them that need no kernel of their own. */
  readonly others: readonly number[];
}

/**
 * Finds out whether one kernel makes two values: attention with the logarithms of its sums, or the gradients of keys
 * with those of values. It does if a kernel may have enough buffers. `id` is the first of the two values in the
 * program.
 */
export function joinAttention(
  values: Values,
  needed: readonly number[],
  id: number,
  { reads, mostBuffers }: { readonly reads: number; readonly mostBuffers: number },
): JoinedAttention {
  const instruction = values.instruction(id);
  if (instruction === undefined || !isAttention(instruction)) throw new RangeError('no attention');
  const partner = partners[instruction.op];
  const other = needed.find((candidate) => {
    const found = values.instruction(candidate);
    if (found?.op !== partner || countOf(found.shape) === 0) return false;
    return candidate > id && isSame(instruction, found);
  });
  const roots: AttentionRoots = { [instruction.op]: id };
  if (other === undefined || partner === null || reads + 2 > mostBuffers)
    return { roots, others: [] };
  return { roots: { ...roots, [partner]: other }, others: [other] };
}

const partners = {
  attention: 'attentionLogSumExp',
  // The instruction has no values (v) as an input, so its kernel cannot compute attention.
  attentionLogSumExp: null,
  attentionQueryGrad: null,
  attentionKeyGrad: 'attentionValueGrad',
  attentionValueGrad: 'attentionKeyGrad',
} as const satisfies Record<AttentionInstruction['op'], AttentionInstruction['op'] | null>;

function isSame(a: AttentionInstruction, b: Instruction): boolean {
  if (!isAttention(b)) return false;
  const { causal, scale, rounding } = a.params;
  const inputs = a.op === 'attention' ? a.inputs.toSpliced(2, 1) : a.inputs;
  return (
    b.params.causal === causal &&
    b.params.scale === scale &&
    b.params.rounding === rounding &&
    inputs.length === b.inputs.length &&
    inputs.every((input, index) => input === b.inputs[index])
  );
}
