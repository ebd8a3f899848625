import type { ComputeOp, DType } from '@shardwise/core/spec';
import { constantBits } from '../../../lanes/constant-bits.ts';
import { inputAt, type CpuInstruction, type InstructionMap } from '../../../program/instruction.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import type { Operand } from '../operand.ts';

/** Adds the nodes of one instruction to a graph. */
export type Lowering<K extends ComputeOp> = (
  graph: GraphBuilder,
  instruction: InstructionMap[K],
) => Operand;

export type Lowerings<K extends ComputeOp> = { readonly [Op in K]: Lowering<Op> };

/** Returns the operand of an instruction's input, for nodes that broadcast. */
export function operandOf(
  graph: GraphBuilder,
  instruction: CpuInstruction,
  index: number,
): Operand {
  return graph.operand(inputAt(instruction, index));
}

/** Returns the name of an instruction's input in its full shape. */
export function exactOf(graph: GraphBuilder, instruction: CpuInstruction, index: number): string {
  return graph.exact(inputAt(instruction, index)).name;
}

/** Returns a number as an element of the tensor that holds a dtype. For f16 and bf16, this is the number's bits. */
export function elementOf(dtype: DType, value: number): number {
  return dtype === 'f16' || dtype === 'bf16' ? constantBits(dtype, value) : value;
}
