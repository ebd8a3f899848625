import { elementCount } from '@shardwise/core/base';
import { type InstructionMap, inputAt } from '../../program/instruction.ts';
import { viewAt } from './view-at.ts';
import { dtypes } from '@shardwise/core/spec';
import type { LinkLoop } from './run-loop.ts';

type Op = 'sin' | 'cos' | 'atan' | 'pow' | 'fmod';

/** Ops with one input ignore the second argument. */
const functions: Readonly<Record<Op, (a: number, b: number) => number>> = {
  sin: (a) => Math.sin(a),
  cos: (a) => Math.cos(a),
  atan: (a) => Math.atan(a),
  pow: power,
  fmod: (a, b) => a % b,
};

/** The power as in C, which returns 1 for some operands for which JavaScript returns NaN. */
function power(a: number, b: number): number {
  const isOne = a === 1 || (a === -1 && (b === Infinity || b === -Infinity));
  return isOne ? 1 : a ** b;
}

/** Computes the functions that kernels have no polynomials for. It computes in f64 and rounds once. */
export const linkElementwise: LinkLoop<Op> = ({ memory }, instruction) => {
  const compute = functions[instruction.op];
  const dtype = instruction.dtype === 'i32' ? 'i32' : 'f32';
  const count = elementCount(instruction.shape);
  const first = inputAt(instruction, 0);
  const second = isBinary(instruction) ? inputAt(instruction, 1) : first;
  return (addressOf) => {
    const [a, b, to] = [first, second, instruction.output].map((id) =>
      viewAt(memory, dtype, addressOf(id), count),
    );
    if (a === undefined || b === undefined || to === undefined) return;
    for (let index = 0; index < count; index++) to[index] = compute(a[index] ?? 0, b[index] ?? 0);
  };
};

function isBinary(instruction: InstructionMap[Op]): boolean {
  return instruction.op === 'pow' || instruction.op === 'fmod';
}

/** Chooses between values of 64 bits, byte by byte. Kernels choose between values of other dtypes. */
export const linkWhere: LinkLoop<'where'> = ({ memory }, instruction) => {
  const count = elementCount(instruction.shape);
  const { bytes } = dtypes[instruction.dtype];
  return (addressOf) => {
    const at = (id: number, length: number): Uint8Array =>
      new Uint8Array(memory.buffer, addressOf(id), length);
    const condition = at(inputAt(instruction, 0), count);
    const whenTrue = at(inputAt(instruction, 1), count * bytes);
    const whenFalse = at(inputAt(instruction, 2), count * bytes);
    const to = at(instruction.output, count * bytes);
    for (let index = 0; index < count; index++) {
      const from = condition[index] === 0 ? whenFalse : whenTrue;
      for (let byte = index * bytes; byte < (index + 1) * bytes; byte++) to[byte] = from[byte] ?? 0;
    }
  };
};
