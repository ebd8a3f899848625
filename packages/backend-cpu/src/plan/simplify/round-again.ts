import { isGroupedStep } from '../../program/product-instructions.ts';
import type { Rewriter } from '../../program/rewriter.ts';
import { inputAt, type Step } from '../../program/instruction.ts';
import { isNarrowing, isWidening } from '../../program/half-casts.ts';

/**
 * Lets each product round its input again, if the input is a program input that was rounded to 16 bits. So the forward
 * pass does not keep 16-bit copies of all weights for the backward pass.
 */
export function roundAgain(step: Step, inputCount: number, rewriter: Rewriter): Step {
  if (step.op !== 'matmul' && !isGroupedStep(step)) return step;
  const inputs = step.inputs.map((id) => roundedAgain(id, inputCount, rewriter));
  return { ...step, inputs };
}

function roundedAgain(id: number, inputCount: number, rewriter: Rewriter): number {
  const step = rewriter.producer(id);
  if (step?.op !== 'cast') return id;
  const input = inputAt(step, 0);
  const isOfInput = isNarrowing(step, rewriter.values) && input < inputCount;
  if (isOfInput) return rewriter.append((output) => ({ ...step, output }));
  if (!isWidening(step, rewriter.values)) return id;
  const again = roundedAgain(input, inputCount, rewriter);
  if (again === input) return id;
  const inputs = [again];
  return rewriter.append((output) => ({ ...step, inputs, output }));
}
