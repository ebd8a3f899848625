import type { ValueType } from '@shardwise/core/spec';
import type { Uses } from './fuse-products.ts';
import { type GroupedStep, isGroupedStep } from './grouped-step.ts';
import type { Rewriter } from './rewriter.ts';
import { inputAt, type Step, type StepMap, valueAt } from './step.ts';

/** Whether a step is a product of values of bf16, which has no other way than machine code. */
export function isNarrowProduct(
  step: Step,
  values: readonly ValueType[],
): step is StepMap['matmul'] | GroupedStep {
  return isProduct(step) && valueAt(values, inputAt(step, 0)).dtype === 'bf16';
}

function isProduct(step: Step): step is StepMap['matmul'] | GroupedStep {
  return step.op === 'matmul' || isGroupedStep(step);
}

/** A product of f32 values that were bf16 before is one of bf16 values with sums in f32. */
export function narrowOperands(step: Step, rewriter: Rewriter): Step {
  if (!isProduct(step) || step.dtype !== 'f32') return step;
  const [a, b] = [0, 1].map((index) => narrowed(inputAt(step, index), rewriter));
  if (a === undefined || b === undefined) return step;
  return { ...step, inputs: [a, b, ...step.inputs.slice(2)] };
}

/** The value of bf16 that an f32 one was. */
function narrowed(id: number, rewriter: Rewriter): number | undefined {
  const producer = rewriter.producer(id);
  if (producer?.op !== 'cast') return undefined;
  const input = inputAt(producer, 0);
  return valueAt(rewriter.values, input).dtype === 'bf16' ? input : undefined;
}

/** A product of bf16 values of which the sums are rounded to bf16, and not read otherwise, rounds them itself. */
export function narrowResult(step: Step, uses: Uses, rewriter: Rewriter): Step {
  if (step.op !== 'cast' || step.dtype !== 'bf16') return step;
  const input = inputAt(step, 0);
  const product = rewriter.producer(input);
  if (product === undefined || uses.get(input) !== 1) return step;
  if (!isNarrowProduct(product, rewriter.values) || product.dtype !== 'f32') return step;
  return { ...product, dtype: 'bf16', output: step.output };
}

/** f32 values of a rounded product that a program gives away are stored by the product itself, and no 16 bits of them. */
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

/** The product with f32 values that have the digits of bf16. */
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
