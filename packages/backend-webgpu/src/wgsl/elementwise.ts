import type { DType, Instruction } from '@shardwise/core/spec';
import { convert } from './convert.ts';

type Unary = (x: string, dtype: DType) => string;
type Binary = (a: string, b: string, dtype: DType) => string;

const isFloat = (dtype: DType): boolean => dtype === 'f32';
const called =
  (name: string): Unary =>
  (x) =>
    `${name}(${x})`;
const infix =
  (operator: string): Binary =>
  (a, b) =>
    `(${a} ${operator} ${b})`;
/** For floats, a function that handles NaN. For integers, an operator or a function of WGSL. */
const byDType =
  (float: string, integer: Binary): Binary =>
  (a, b, dtype) =>
    isFloat(dtype) ? `${float}(${a}, ${b})` : integer(a, b, dtype);
/**
 * A float that a compiler cannot simplify together with others. Compilers assume that no number is NaN or infinite: they
 * make 0 of x - x and of 0 * x. And they round a * b + c once. So they get to know neither that two numbers are the same,
 * nor that a number is a constant or a product.
 */
export const opaqueIn = (dtype: DType, x: string): string =>
  isFloat(dtype) ? `opaque_of(${x})` : x;
const asNumber = (x: string, dtype: DType): string => (dtype === 'bool' ? `select(0, 1, ${x})` : x);
const compared =
  (operator: string): Binary =>
  (a, b, dtype) =>
    `(${asNumber(a, dtype)} ${operator} ${asNumber(b, dtype)})`;

type UnaryOp =
  | 'neg'
  | 'abs'
  | 'sign'
  | 'exp'
  | 'log'
  | 'sqrt'
  | 'sin'
  | 'cos'
  | 'atan'
  | 'tanh'
  | 'erf'
  | 'floor'
  | 'ceil'
  | 'logicalNot'
  | 'sigmoid'
  | 'relu'
  | 'silu'
  | 'softplus';
type BinaryOp =
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'pow'
  | 'maximum'
  | 'minimum'
  | 'fmod'
  | 'equal'
  | 'less'
  | 'lessEqual'
  | 'logicalAnd'
  | 'logicalOr';

const unary: Readonly<Record<UnaryOp, Unary>> = {
  neg: (x, dtype) => `(-${opaqueIn(dtype, x)})`,
  abs: called('abs'),
  sign: (x, dtype) => (isFloat(dtype) ? `sign_of(${x})` : `sign(${x})`),
  exp: called('exp_of'),
  log: called('log_of'),
  sqrt: (x) => `square_root_of(${x})`,
  sin: called('sin_of'),
  cos: called('cos_of'),
  atan: called('atan_of'),
  tanh: called('tanh_of'),
  erf: called('erf_of'),
  floor: called('floor'),
  ceil: called('ceil'),
  logicalNot: (x) => `(!${x})`,
  sigmoid: called('sigmoid_of'),
  relu: (x, dtype) => (isFloat(dtype) ? `larger_of(${x}, 0f)` : `max(${x}, 0)`),
  silu: (x) => `opaque_of(${x} * sigmoid_of(${x}))`,
  softplus: called('softplus_of'),
};

const binary: Readonly<Record<BinaryOp, Binary>> = {
  add: infix('+'),
  sub: (a, b, dtype) => `(${a} - ${opaqueIn(dtype, b)})`,
  mul: (a, b, dtype) => opaqueIn(dtype, `(${a} * ${b})`),
  div: byDType('quotient_of', infix('/')),
  pow: byDType('power_of', (a, b) => `whole_power(${a}, ${b})`),
  maximum: byDType('larger_of', (a, b, dtype) =>
    dtype === 'bool' ? `(${a} || ${b})` : `max(${a}, ${b})`,
  ),
  minimum: byDType('smaller_of', (a, b, dtype) =>
    dtype === 'bool' ? `(${a} && ${b})` : `min(${a}, ${b})`,
  ),
  fmod: byDType('remainder_of', infix('%')),
  equal: byDType('is_equal', infix('==')),
  less: byDType('is_less', compared('<')),
  lessEqual: byDType('is_less_or_equal', compared('<=')),
  logicalAnd: infix('&&'),
  logicalOr: infix('||'),
};

type ElementwiseOp = UnaryOp | BinaryOp | 'cast' | 'where';
export type ElementwiseInstruction = Extract<Instruction, { op: ElementwiseOp }>;

const isUnary = (op: string): op is UnaryOp => op in unary;
const isBinary = (op: string): op is BinaryOp => op in binary;

export function isElementwise(instruction: Instruction): instruction is ElementwiseInstruction {
  const { op } = instruction;
  return op === 'cast' || op === 'where' || isUnary(op) || isBinary(op);
}

/**
 * An element of the result. `inputs` are the names of the elements of the inputs, which have dtype `from` (except a
 * condition).
 */
export function elementOf(
  instruction: ElementwiseInstruction,
  inputs: readonly string[],
  from: DType,
): string {
  const [a = '', b = '', c = ''] = inputs;
  const { op } = instruction;
  if (op === 'cast') return convert(a, from, instruction.dtype);
  if (op === 'where') return `select(${b}, ${a}, ${c})`;
  return isUnary(op) ? unary[op](a, from) : binary[op](a, b, from);
}
