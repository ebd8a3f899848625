import type { ComputeOp, Instruction, ValueType } from '@shardwise/core/spec';
import { indexKernel } from '../emit/wasm/indexing/index-kernel.ts';
import { movesRows } from '../emit/wasm/move/moves-rows.ts';
import { rowKernel } from '../emit/wasm/rows/row-kernel.ts';
import {
  type ElementwiseOp,
  isComputeDType,
  isLaneDType,
  expandAccess,
} from '../lanes/loop-spec.ts';

const elementwiseOps = {
  neg: true,
  abs: true,
  sign: true,
  exp: true,
  log: true,
  sqrt: true,
  tanh: true,
  erf: true,
  floor: true,
  ceil: true,
  logicalNot: true,
  cast: true,
  add: true,
  sub: true,
  mul: true,
  div: true,
  pow: true,
  maximum: true,
  minimum: true,
  equal: true,
  less: true,
  lessEqual: true,
  logicalAnd: true,
  logicalOr: true,
  where: true,
  sigmoid: true,
  relu: true,
  gelu: true,
  geluGrad: true,
  random: true,
} satisfies Record<ElementwiseOp, true>;

export function isElementwiseOp(op: ComputeOp): op is ElementwiseOp {
  return op in elementwiseOps;
}

/** Whether a fused loop can compute the instruction. `inputs` are the types of its inputs. */
export function isFusable(instruction: Instruction, inputs: readonly ValueType[]): boolean {
  const { op, dtype, shape } = instruction;
  if (!isLaneDType(dtype) || !inputs.every((input) => isLaneDType(input.dtype))) return false;
  if (op === 'constant' || op === 'reshape' || op === 'cast' || op === 'where') return true;
  // ONNX Runtime or a loop in JavaScript computes powers of floats.
  if (op === 'pow' && dtype !== 'i32') return false;
  if (isElementwiseOp(op))
    return [instruction, ...inputs].every((type) => isComputeDType(type.dtype));
  const [from] = inputs;
  return op === 'expand' && from !== undefined && expandAccess(from.shape, shape) !== undefined;
}

/**
 * Whether a kernel of its own computes this instruction. Such kernels are reductions over rows in one pass, running
 * sums, movement of whole rows, ops with indices, conversions of 64 bits, and `random`.
 */
export function wasmHandles(instruction: Instruction, inputs: readonly ValueType[]): boolean {
  if (instruction.op === 'random' || movesRows(instruction, inputs)) return true;
  if (indexKernel(instruction, inputs, false) !== undefined) return true;
  return rowKernel(instruction, inputs) !== undefined;
}
