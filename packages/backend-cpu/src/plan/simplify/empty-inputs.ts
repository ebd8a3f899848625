import type { DType, ValueType } from '@shardwise/core/spec';
import { elementCount } from '@shardwise/core/base';
import { inputAt, valueAt, type CpuInstruction } from '../../program/instruction.ts';

function isEmpty(values: readonly ValueType[], id: number): boolean {
  return elementCount(valueAt(values, id).shape) === 0;
}

function filled(instruction: CpuInstruction, value: number): CpuInstruction {
  const { shape, dtype, output } = instruction;
  return { op: 'constant', params: { value, shape, dtype }, inputs: [], shape, dtype, output };
}

function copied(instruction: CpuInstruction, input: number): CpuInstruction {
  const { shape, dtype, output } = instruction;
  return { op: 'reshape', params: { shape }, inputs: [input], shape, dtype, output };
}

const smallest: { readonly [D in DType]: number } = {
  f64: -Infinity,
  f32: -Infinity,
  f16: -Infinity,
  bf16: -Infinity,
  i64: -(2 ** 63),
  i32: -(2 ** 31),
  u8: 0,
  bool: 0,
};

/**
 * Removes the inputs of size 0 from an instruction, so that kernels need not handle them. For example, a sum over
 * nothing becomes zeros, and a scatter of nothing becomes its input. The instruction's own result must have elements.
 */
export function withoutEmptyInputs(
  instruction: CpuInstruction,
  values: readonly ValueType[],
): CpuInstruction {
  if (!instruction.inputs.some((id) => isEmpty(values, id))) return instruction;
  switch (instruction.op) {
    case 'concat': {
      const inputs = instruction.inputs.filter((id) => !isEmpty(values, id));
      return { ...instruction, inputs };
    }
    case 'scatterAdd':
    case 'scatter':
    case 'indexAdd':
      return copied(instruction, inputAt(instruction, 0));
    case 'pad':
      return filled(instruction, instruction.params.value);
    case 'attentionLogSumExp':
      return filled(instruction, Infinity);
    case 'max':
      return filled(instruction, smallest[instruction.dtype]);
    default:
      return filled(instruction, 0);
  }
}
