import type { Instruction } from '@shardwise/core/spec';
import type { Kernel } from '../emit/kernel.ts';
import { countOf, inputAt, type Values, wordsOf } from '../program/values.ts';

/**
 * The work of a kernel: the words that it reads and writes, plus the terms that it adds up. Its time grows with that
 * number.
 */
export function workOf(values: Values, { reads, writes, terms = 0 }: Kernel): number {
  return [...reads, ...writes].reduce((sum, id) => sum + wordsOf(values, id), terms);
}

/**
 * The terms that a kernel adds up, or compares, to make the result of an instruction. 0 for instructions that read
 * their inputs once.
 */
export function termsOf(values: Values, instruction: Instruction): number {
  const elements = countOf(instruction.shape);
  const sizesOf = (at: number): readonly number[] => values.shape(inputAt(instruction, at));
  switch (instruction.op) {
    case 'matmul':
      return elements * (sizesOf(0).at(instruction.params.transposeA ? -2 : -1) ?? 1);
    case 'groupedMatmul':
      return elements * (sizesOf(0)[1] ?? 1);
    case 'groupedMatmulWeight':
      return (elements / Math.max(1, instruction.shape[0] ?? 1)) * (sizesOf(0)[0] ?? 1);
    case 'conv2d':
      return elements * countOf(sizesOf(1).slice(1));
    case 'conv2dInput': {
      const [outputs = 1, , tall = 1, wide = 1] = sizesOf(1);
      return (elements * outputs * tall * wide) / instruction.params.groups;
    }
    case 'conv2dWeight': {
      const [count = 1, , tall = 1, wide = 1] = sizesOf(1);
      return elements * count * tall * wide;
    }
    case 'argSort':
      return elements * (instruction.shape[instruction.params.dim] ?? 1);
    case 'indexAdd':
      return elements * countOf(sizesOf(1));
    case 'scatter':
    case 'scatterAdd':
      return elements * (sizesOf(1)[instruction.params.dim] ?? 1);
    case 'attention':
    case 'attentionLogSumExp':
    case 'attentionQueryGrad':
    case 'attentionKeyGrad':
    case 'attentionValueGrad': {
      // Each query meets each key, in two products for attention itself, and in three for the other ops.
      const [keys = 1, width = 1] = sizesOf(1).slice(-2);
      const queries = countOf(sizesOf(0).slice(0, -1));
      return queries * keys * width * (instruction.op === 'attention' ? 2 : 3);
    }
    default:
      return 0;
  }
}
