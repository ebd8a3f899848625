import type { Shape } from '@shardwise/core/spec';
import { inputAt, sameShape, type InstructionMap } from '../../../program/instruction.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import type { Operand } from '../operand.ts';
import type { Lowerings } from './lowering.ts';

/** Returns an operand for MatMul, which broadcasts batch dims itself, but needs the last two dims in full. */
function matrixOperand(graph: GraphBuilder, id: number): Operand {
  const operand = graph.operand(id);
  const { shape } = graph.type(id);
  const full = operand.shape.length === shape.length;
  return full && sameShape(operand.shape.slice(-2), shape.slice(-2)) ? operand : graph.exact(id);
}

function swapLastTwo(shape: Shape): number[] {
  const rank = shape.length;
  return [...shape.keys()].with(rank - 2, rank - 1).with(rank - 1, rank - 2);
}

function transposed(graph: GraphBuilder, operand: Operand, transpose: boolean): string {
  if (!transpose) return operand.name;
  return graph.emit('Transpose', [operand.name], { perm: { ints: swapLastTwo(operand.shape) } });
}

function multiply(graph: GraphBuilder, instruction: InstructionMap['matmul']): Operand {
  const { transposeA, transposeB, scale = 1 } = instruction.params;
  const a = matrixOperand(graph, inputAt(instruction, 0));
  const b = matrixOperand(graph, inputAt(instruction, 1));
  const flags = { transA: { int: Number(transposeA) }, transB: { int: Number(transposeB) } };
  const [, , addend] = instruction.inputs;
  if (addend !== undefined) {
    const names = [a.name, b.name, graph.operand(addend).name];
    const name = graph.emit('Gemm', names, { ...flags, alpha: { float: scale } });
    return { name, shape: instruction.shape };
  }
  const shape = matrixShape(a, b, instruction.shape);
  if (
    graph.usesRuntimeOps &&
    instruction.dtype === 'f32' &&
    (transposeA || transposeB || scale !== 1)
  ) {
    const attributes = { ...flags, alpha: { float: scale } };
    const name = graph.emit('FusedMatMul', [a.name, b.name], attributes, 'com.microsoft');
    return { name, shape };
  }
  const operands = [transposed(graph, a, transposeA), transposed(graph, b, transposeB)];
  return { name: graph.emit('MatMul', operands), shape };
}

/** The shape of the result. It has a batch dim of 1 where both operands have one. */
function matrixShape(a: Operand, b: Operand, shape: Shape): Shape {
  return shape.map((size, dim) => {
    if (dim >= shape.length - 2) return size;
    const sizeA = a.shape[dim - shape.length + a.shape.length] ?? 1;
    const sizeB = b.shape[dim - shape.length + b.shape.length] ?? 1;
    return Math.max(sizeA, sizeB);
  });
}

export const matmul: Lowerings<'matmul'> = { matmul: multiply };
