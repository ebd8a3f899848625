import type { ValueType } from '@shardwise/core/spec';
import { valueAt } from '../../program/instruction.ts';
import type { TensorType } from './model.ts';
import { convertedValues, sessionType } from './session-type.ts';
import type { CompletePartition } from '../../program/partition.ts';

/** A value that a session reads or writes. */
export interface Slot {
  readonly id: number;
  readonly type: ValueType;
  readonly element: TensorType;
}

export interface OnnxSlots {
  readonly inputs: readonly Slot[];
  readonly outputs: readonly Slot[];
}

export function onnxSlots(
  values: readonly ValueType[],
  { inputs, outputs, instructions }: Pick<CompletePartition, 'inputs' | 'outputs' | 'instructions'>,
): OnnxSlots {
  const converted = convertedValues(instructions, values);
  const slotOf = (id: number): Slot => {
    const { shape, dtype } = valueAt(values, id);
    return { id, type: { shape, dtype }, element: converted.get(id) ?? sessionType(dtype) };
  };
  return { inputs: inputs.map(slotOf), outputs: outputs.map(slotOf) };
}
