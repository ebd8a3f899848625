import { inputAt, type Step, type StepMap, valueAt } from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';
import {
  type GroupedStep,
  isNarrowProduct,
  isProduct,
} from '../../program/product-instructions.ts';

/** Turns a product of f32 values that were cast from bf16 into a product of the bf16 values, with sums in f32. */
export function narrowOperands(step: Step, rewriter: Rewriter): Step {
  if (!isProduct(step) || step.dtype !== 'f32') return step;
  const [a, b] = [0, 1].map((index) => narrowed(inputAt(step, index), rewriter));
  if (a === undefined || b === undefined) return step;
  return { ...step, inputs: [a, b, ...step.inputs.slice(2)] };
}

/** Returns the bf16 value that an f32 value was cast from. */
function narrowed(id: number, rewriter: Rewriter): number | undefined {
  const producer = rewriter.producer(id);
  if (producer?.op !== 'cast') return undefined;
  const input = inputAt(producer, 0);
  return valueAt(rewriter.values, input).dtype === 'bf16' ? input : undefined;
}

/**
 * Lets a product of bf16 values round its sums to bf16 itself, if they are only cast to bf16 and have no other reader.
 */
export function narrowResult(step: Step, uses: Uses, rewriter: Rewriter): Step {
  if (step.op !== 'cast' || step.dtype !== 'bf16') return step;
  const input = inputAt(step, 0);
  const product = rewriter.producer(input);
  if (product === undefined || uses.get(input) !== 1) return step;
  if (!isNarrowProduct(product, rewriter.values) || product.dtype !== 'f32') return step;
  return { ...product, dtype: 'bf16', output: step.output };
}

/**
 * If a program only returns the f32 values of a product that rounds to bf16, lets the product store these f32 values
 * itself. No bf16 values are stored then.
 */
export function widenResult(
  step: Step,
  uses: Uses,
  outputs: ReadonlySet<number>,
  rewriter: Rewriter,
): Step {
  if (step.op !== 'cast' || step.dtype !== 'f32' || !outputs.has(step.output)) return step;
  const input = inputAt(step, 0);
  const product = rewriter.producer(input);
  if (product === undefined || uses.get(input) !== 1) return step;
  if (!isNarrowProduct(product, rewriter.values) || product.dtype !== 'bf16') return step;
  return rounding(product, step.output);
}

/** The product with an f32 result whose values are rounded to the precision of bf16. */
function rounding(product: StepMap['matmul'] | GroupedStep, output: number): Step {
  switch (product.op) {
    case 'matmul':
      return { ...product, dtype: 'f32', params: { ...product.params, rounds: true }, output };
    case 'groupedMatmul':
      return { ...product, dtype: 'f32', params: { ...product.params, rounds: true }, output };
    case 'groupedMatmulWeight':
      return { ...product, dtype: 'f32', params: { ...product.params, rounds: true }, output };
    default:
      return product satisfies never;
  }
}
