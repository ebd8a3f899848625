import { isNarrowProduct } from './narrow-products.ts';
import { inputAt, type Segment } from './step.ts';
import { isNarrowing } from './widening.ts';

/**
 * The ids of program inputs rounded to bf16 that only products read. Packing such an operand rounds it, so that no
 * 16-bit copy of the weights is made.
 */
export function roundedByPacking({ steps, values, inputCount }: Segment): ReadonlySet<number> {
  const rounded = new Set<number>();
  const roots = new Map<number, number>();
  for (const step of steps) {
    const isOfInput = isNarrowing(step, values) && inputAt(step, 0) < inputCount;
    if (isOfInput && step.dtype === 'bf16') {
      rounded.add(step.output);
      roots.set(step.output, step.output);
      continue;
    }
    const isView = step.op === 'reshape' || step.op === 'expand';
    for (const [index, id] of step.inputs.entries()) {
      const root = roots.get(id);
      if (root === undefined) continue;
      if (isView) roots.set(step.output, root);
      else if (!isNarrowProduct(step, values) || index > 1) rounded.delete(root);
    }
  }
  return rounded;
}
