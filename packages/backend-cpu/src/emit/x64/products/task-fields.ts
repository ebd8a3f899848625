import {
  fieldOffset,
  type OperandName,
  operandOffset,
  type TaskField,
  type taskFields,
} from '../../products/task-layout.ts';
import { at, type Memory, r15, rbp } from '../operands.ts';

/** A field of the current task, whose address is in r15. */
export function taskField<K extends keyof typeof taskFields>(kind: K, field: TaskField<K>): Memory {
  return at(r15, fieldOffset(kind, field));
}

/** The address of an operand. rbp has the address of the frame. */
export function operandAddress(name: OperandName): Memory {
  return at(rbp, operandOffset(name));
}
