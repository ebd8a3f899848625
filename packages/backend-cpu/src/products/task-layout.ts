import { at, type Memory, r15, rbp } from '../machine-code/operands.ts';

/** The operands of a product, by their places in the frame: where each lies in memory. */
export const operandNames = ['left', 'right', 'result', 'addend', 'packed', 'tasks'] as const;
export type OperandName = (typeof operandNames)[number];

/** The byte offset of an operand's address in the frame. */
export function operandOffset(name: OperandName): number {
  return 8 * operandNames.indexOf(name);
}

/** What the tasks say, in words of 8 bytes; `routine` is the address of what carries them out. */
const taskFields = {
  /** Packs panels: rows of the left operand, or columns of the right one. */
  pack: [
    'routine',
    'operand',
    'byteOffset',
    'panelStepBytes',
    'strideBytes',
    'panels',
    'lastLanes',
    'elements',
    'packedOffset',
    'packedPanelBytes',
  ],
  /** Multiplies packed panels of rows with packed panels of columns. */
  multiply: [
    'routine',
    'kernel',
    'lastKernel',
    'leftOperand',
    'leftOffset',
    'leftStrideBytes',
    'leftStepBytes',
    'rightOffset',
    'sumsOffset',
    'sumsStepBytes',
    'units',
    'rowPanels',
    'columnPanels',
    'lastColumns',
    'lastRows',
    'leftPanelBytes',
    'rightPanelBytes',
    'resultOffset',
    'resultStrideBytes',
    'addendOffset',
    'addendStrideBytes',
    'addendPanelBytes',
    'flags',
    'scale',
  ],
} as const;

export type TaskField<K extends keyof typeof taskFields> = (typeof taskFields)[K][number];

/** Bytes from one task to the next. */
export const taskBytes = 256;

/** What a multiplication does beside it. */
export const taskFlags = { addsToResult: 1, scales: 2, addsAddend: 4, rounds: 8 } as const;

export function fieldOffset<K extends keyof typeof taskFields>(
  kind: K,
  field: TaskField<K>,
): number {
  const fields: readonly string[] = taskFields[kind];
  return 8 * fields.indexOf(field);
}

/** A field of the task that is carried out. Code has its address in r15. */
export function taskField<K extends keyof typeof taskFields>(kind: K, field: TaskField<K>): Memory {
  return at(r15, fieldOffset(kind, field));
}

/** The address of an operand. Code has the address of the frame in rbp. */
export function operandAddress(name: OperandName): Memory {
  return at(rbp, operandOffset(name));
}
