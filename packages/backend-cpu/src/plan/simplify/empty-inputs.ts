import type { DType, ValueType } from '@shardwise/core/spec';
import { elementCount, inputAt, valueAt, type Step } from '../../program/instruction.ts';

function isEmpty(values: readonly ValueType[], id: number): boolean {
  return elementCount(valueAt(values, id).shape) === 0;
}

function filled(step: Step, value: number): Step {
  const { shape, dtype, output } = step;
  return { op: 'constant', params: { value, shape, dtype }, inputs: [], shape, dtype, output };
}

function copied(step: Step, input: number): Step {
  const { shape, dtype, output } = step;
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
 * Removes the inputs of size 0 from a step, so that kernels need not handle them. For example, a sum over nothing
 * becomes zeros, and a scatter of nothing becomes its input. The step's own result must have elements.
 */
export function withoutEmptyInputs(step: Step, values: readonly ValueType[]): Step {
  if (!step.inputs.some((id) => isEmpty(values, id))) return step;
  switch (step.op) {
    case 'concat': {
      const inputs = step.inputs.filter((id) => !isEmpty(values, id));
      return { ...step, inputs };
    }
    case 'scatterAdd':
    case 'scatter':
    case 'indexAdd':
      return copied(step, inputAt(step, 0));
    case 'pad':
      return filled(step, step.params.value);
    case 'attentionLogSumExp':
      return filled(step, Infinity);
    case 'max':
      return filled(step, smallest[step.dtype]);
    default:
      return filled(step, 0);
  }
}
