import { type Instruction, isHalfDType, type Shape, type ValueType } from '@shardwise/core/spec';
import { elementCount } from '@shardwise/core/base';

/**
 * Runs of adjacent elements that are shorter than this are not worth a loop of their own. Integers are few, such as the
 * places of tokens, and a program for any sizes must not depend on how many they are.
 */
const fewest = { ofFloats: 16, ofIntegers: 1 } as const;

/** Whether an instruction moves elements in runs of adjacent elements, so that row copies can carry it out. */
export function movesRows(instruction: Instruction, inputs: readonly ValueType[]): boolean {
  const { dtype } = instruction;
  if (dtype !== 'f32' && dtype !== 'i32' && !isHalfDType(dtype)) return false;
  const least = dtype === 'i32' ? fewest.ofIntegers : fewest.ofFloats;
  return runElements(instruction, inputs) >= least;
}

/** How many adjacent elements stay adjacent. 0 if the instruction is no such movement. */
function runElements(instruction: Instruction, inputs: readonly ValueType[]): number {
  const [input] = inputs;
  if (input === undefined) return 0;
  switch (instruction.op) {
    case 'permute': {
      const { order } = instruction.params;
      const moved = order.findLastIndex((from, to) => from !== to);
      return elementCount(input.shape.slice(moved + 1));
    }
    case 'slice':
      if (instruction.params.steps.some((step) => step !== 1)) return 0;
      return runWithin(instruction.shape, input.shape);
    case 'concat':
      return Math.min(...inputs.map(({ shape }) => runWithin(shape, instruction.shape)));
    default:
      return 0;
  }
}

/** How many elements are adjacent in both, if `part` is a box of `whole`. */
function runWithin(part: Shape, whole: Shape): number {
  const cut = part.findLastIndex((size, dim) => size !== whole[dim]);
  return elementCount(part.slice(Math.max(cut, 0)));
}
