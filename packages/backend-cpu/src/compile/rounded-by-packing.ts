import { isNarrowProduct } from './narrow-products.ts';
import { inputAt, type Segment } from './step.ts';
import { isNarrowing } from './widening.ts';

/**
 * Inputs of a program that are rounded to bf16 for products alone, by the ids of what is rounded: packing an operand rounds it,
 * so that there is no copy of the weights in 16 bits.
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
