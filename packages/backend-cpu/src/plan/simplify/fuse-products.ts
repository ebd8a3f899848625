import { inputAt, valueAt, type Step, type StepMap } from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';

type Product = StepMap['matmul'];

/**
 * Lets an f32 matmul scale its result and add a bias in the pass that computes the result. The scale comes from
 * constant factors of an operand or of the result.
 */
export function fuseProducts(step: Step, uses: Uses, rewriter: Rewriter): Step {
  if (step.dtype !== 'f32') return step;
  switch (step.op) {
    case 'matmul':
      return withFactors(step, rewriter);
    case 'mul':
      return scaledProduct(step, uses, rewriter) ?? step;
    case 'add':
      return productWithBias(step, uses, rewriter) ?? step;
    default:
      return step;
  }
}

/**
 * Returns the product that makes a value, if the value has one reader and the product can still take a factor or an
 * addend.
 */
function ownProduct(id: number, uses: Uses, rewriter: Rewriter): Product | undefined {
  const step = rewriter.producer(id);
  if (step?.op !== 'matmul' || step.inputs.length > 2 || uses.get(id) !== 1) return undefined;
  if (step.params.rounds === true) return undefined;
  return step;
}

/** Returns the number that all elements of a value have, if the value is such a constant. */
function constantOf(id: number, rewriter: Rewriter): number | undefined {
  let step = rewriter.producer(id);
  while (step?.op === 'expand' || step?.op === 'reshape') {
    step = rewriter.producer(inputAt(step, 0));
  }
  return step?.op === 'constant' ? step.params.value : undefined;
}

/**
 * Returns the constant factor of a mul. The factor must be finite, so that infinities and NaN come out as they would
 * without fusing.
 */
function factorOf(step: Step, rewriter: Rewriter): { id: number; factor: number } | undefined {
  if (step.op !== 'mul') return undefined;
  for (const [factorIndex, index] of [
    [1, 0],
    [0, 1],
  ] as const) {
    const factor = constantOf(inputAt(step, factorIndex), rewriter);
    if (factor !== undefined && Number.isFinite(factor))
      return { id: inputAt(step, index), factor };
  }
  return undefined;
}

function scaled(step: Product, factor: number): Product {
  const scale = (step.params.scale ?? 1) * factor;
  return { ...step, params: { ...step.params, scale } };
}

function withFactors(step: Product, rewriter: Rewriter): Product {
  let result = step;
  step.inputs.forEach((input, index) => {
    const producer = rewriter.producer(input);
    const found = producer === undefined ? undefined : factorOf(producer, rewriter);
    if (found === undefined) return;
    result = { ...scaled(result, found.factor), inputs: result.inputs.with(index, found.id) };
  });
  return result;
}

function scaledProduct(step: StepMap['mul'], uses: Uses, rewriter: Rewriter): Product | undefined {
  const found = factorOf(step, rewriter);
  const product = found === undefined ? undefined : ownProduct(found.id, uses, rewriter);
  if (found === undefined || product === undefined) return undefined;
  return { ...scaled(product, found.factor), output: step.output };
}

function productWithBias(
  step: StepMap['add'],
  uses: Uses,
  rewriter: Rewriter,
): Product | undefined {
  for (const [index, biasIndex] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const product = ownProduct(inputAt(step, index), uses, rewriter);
    const bias = inputAt(step, biasIndex);
    const isBias = rewriter.producer(bias)?.op === 'expand';
    const isPlain = product?.inputs.every((id) => valueAt(rewriter.values, id).shape.length === 2);
    if (product && isPlain && isBias) {
      return { ...product, inputs: [...product.inputs, bias], output: step.output };
    }
  }
  return undefined;
}
