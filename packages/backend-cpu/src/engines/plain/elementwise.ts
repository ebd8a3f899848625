import { type StepMap, elementCount, inputAt } from '../../program/instruction.ts';
import type { LinkLoop } from './run-loop.ts';
import { viewAt } from './view-at.ts';

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
export const linkElementwise: LinkLoop<Op> = ({ memory }, step) => {
  const compute = functions[step.op];
  const dtype = step.dtype === 'i32' ? 'i32' : 'f32';
  const count = elementCount(step.shape);
  const first = inputAt(step, 0);
  const second = isBinary(step) ? inputAt(step, 1) : first;
  return (addressOf) => {
    const [a, b, to] = [first, second, step.output].map((id) =>
      viewAt(memory, dtype, addressOf(id), count),
    );
    if (a === undefined || b === undefined || to === undefined) return;
    for (let index = 0; index < count; index++) to[index] = compute(a[index] ?? 0, b[index] ?? 0);
  };
};

function isBinary(step: StepMap[Op]): boolean {
  return step.op === 'pow' || step.op === 'fmod';
}
