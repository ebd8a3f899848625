import {
  inputAt,
  valueAt,
  type CpuInstruction,
  type InstructionMap,
} from '../../program/instruction.ts';
import type { Rewriter, Uses } from '../../program/rewriter.ts';

type Product = InstructionMap['matmul'];

/**
 * Lets an f32 matmul scale its result and add a bias in the pass that computes the result. The scale comes from
 * constant factors of an operand or of the result.
 */
export function fuseProducts(
  instruction: CpuInstruction,
  uses: Uses,
  rewriter: Rewriter,
): CpuInstruction {
  if (instruction.dtype !== 'f32') return instruction;
  switch (instruction.op) {
    case 'matmul':
      return withFactors(instruction, rewriter);
    case 'mul':
      return scaledProduct(instruction, uses, rewriter) ?? instruction;
    case 'add':
      return productWithBias(instruction, uses, rewriter) ?? instruction;
    default:
      return instruction;
  }
}

/**
 * Returns the product that makes a value, if the value has one reader and the product can still take a factor or an
 * addend.
 */
function ownProduct(id: number, uses: Uses, rewriter: Rewriter): Product | undefined {
  const instruction = rewriter.producer(id);
  if (instruction?.op !== 'matmul' || instruction.inputs.length > 2 || uses.get(id) !== 1)
    return undefined;
  if (instruction.params.rounds === true) return undefined;
  return instruction;
}

/** Returns the number that all elements of a value have, if the value is such a constant. */
function constantOf(id: number, rewriter: Rewriter): number | undefined {
  let instruction = rewriter.producer(id);
  while (instruction?.op === 'expand' || instruction?.op === 'reshape') {
    instruction = rewriter.producer(inputAt(instruction, 0));
  }
  return instruction?.op === 'constant' ? instruction.params.value : undefined;
}

/**
 * Returns the constant factor of a mul. The factor must be finite, so that infinities and NaN come out as they would
 * without fusing.
 */
function factorOf(
  instruction: CpuInstruction,
  rewriter: Rewriter,
): { id: number; factor: number } | undefined {
  if (instruction.op !== 'mul') return undefined;
  for (const [factorIndex, index] of [
    [1, 0],
    [0, 1],
  ] as const) {
    const factor = constantOf(inputAt(instruction, factorIndex), rewriter);
    if (factor !== undefined && Number.isFinite(factor))
      return { id: inputAt(instruction, index), factor };
  }
  return undefined;
}

function scaled(instruction: Product, factor: number): Product {
  const scale = (instruction.params.scale ?? 1) * factor;
  return { ...instruction, params: { ...instruction.params, scale } };
}

function withFactors(instruction: Product, rewriter: Rewriter): Product {
  let result = instruction;
  instruction.inputs.forEach((input, index) => {
    const producer = rewriter.producer(input);
    const found = producer === undefined ? undefined : factorOf(producer, rewriter);
    if (found === undefined) return;
    result = { ...scaled(result, found.factor), inputs: result.inputs.with(index, found.id) };
  });
  return result;
}

function scaledProduct(
  instruction: InstructionMap['mul'],
  uses: Uses,
  rewriter: Rewriter,
): Product | undefined {
  const found = factorOf(instruction, rewriter);
  const product = found === undefined ? undefined : ownProduct(found.id, uses, rewriter);
  if (found === undefined || product === undefined) return undefined;
  return { ...scaled(product, found.factor), output: instruction.output };
}

function productWithBias(
  instruction: InstructionMap['add'],
  uses: Uses,
  rewriter: Rewriter,
): Product | undefined {
  for (const [index, biasIndex] of [
    [0, 1],
    [1, 0],
  ] as const) {
    const product = ownProduct(inputAt(instruction, index), uses, rewriter);
    const bias = inputAt(instruction, biasIndex);
    const isBias = rewriter.producer(bias)?.op === 'expand';
    const isPlain = product?.inputs.every((id) => valueAt(rewriter.values, id).shape.length === 2);
    if (product && isPlain && isBias) {
      return { ...product, inputs: [...product.inputs, bias], output: instruction.output };
    }
  }
  return undefined;
}
