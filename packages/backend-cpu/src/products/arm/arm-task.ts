import type { ArmAssembler } from '../../machine-code/arm/assembler.ts';
import { type ArmRegister, x } from '../../machine-code/arm/operands.ts';
import { fieldOffset, type OperandName, operandOffset, type TaskField } from '../task-layout.ts';

/** The sums that stay in registers: 24 of 32 vectors. */
export const armTile = { rows: 8, columns: 12 } as const;
/** Terms that one instruction takes of each row and column of bf16. */
export const armTerms = 4;

/** The addresses of the frame and of the task that is carried out. Routines leave them, and x18 belongs to the system. */
export const frame: ArmRegister = x(19);
export const task: ArmRegister = x(20);
/** The way back of a routine that calls another. */
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

/** Registers of `emitCopy`, all of which it changes, and x8, x15, x16 and x17. */
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

/** Copies rows of elements one by one: what does not fill registers. There are some of both. */
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
