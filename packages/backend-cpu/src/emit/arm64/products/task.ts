import type { ArmAssembler } from '../assembler.ts';
import { type ArmRegister, x } from '../operands.ts';
import {
  fieldOffset,
  type OperandName,
  operandOffset,
  type TaskField,
} from '../../products/task-layout.ts';

/** The size of the tile of sums that stays in registers. It takes 24 of 32 vectors. */
export const armTile = { rows: 8, columns: 12 } as const;
/** How many terms of each row and column one bf16 instruction takes. */
export const ARM_TERMS = 4;

/**
 * The registers with the addresses of the frame and of the current task. Routines must not change them, nor x18, which
 * belongs to the system.
 */
export const frame: ArmRegister = x(19);
export const task: ArmRegister = x(20);
/** The return address. A routine that calls another one must save it. */
export const link: ArmRegister = x(30);

export function loadField<K extends 'pack' | 'multiply'>(
  code: ArmAssembler,
  target: ArmRegister,
  kind: K,
  field: TaskField<K>,
): void {
  code.move('ldr x', target, task, fieldOffset(kind, field));
}

export function loadOperand(code: ArmAssembler, target: ArmRegister, name: OperandName): void {
  code.move('ldr x', target, frame, operandOffset(name));
}

/** The registers that `emitCopy` takes. It may change all of them, and x8, x15, x16 and x17. */
export const copied: Readonly<
  Record<'source' | 'sourceStride' | 'target' | 'targetStride' | 'rows' | 'elements', ArmRegister>
> = {
  source: x(9),
  sourceStride: x(10),
  target: x(11),
  targetStride: x(12),
  rows: x(13),
  elements: x(14),
};

/**
 * Writes code that copies rows, element by element, for blocks that do not fill registers. There must be at least one
 * row and one element.
 */
export function emitCopy(code: ArmAssembler, elementBytes: 2 | 4): void {
  const { source, sourceStride, target, targetStride, rows, elements } = copied;
  const [from, to, left, value] = [x(15), x(16), x(8), x(17)];
  const row = code.place();
  code.mov(from, source);
  code.mov(to, target);
  code.mov(left, elements);
  const element = code.place();
  code.moveAndStep(elementBytes === 2 ? 'ldrh w' : 'ldr w', value, from, elementBytes);
  code.moveAndStep(elementBytes === 2 ? 'strh w' : 'str w', value, to, elementBytes);
  code.subs(left, left, 1);
  code.jumpIf('notEqual', element);
  code.add(source, source, sourceStride);
  code.add(target, target, targetStride);
  code.subs(rows, rows, 1);
  code.jumpIf('notEqual', row);
}
