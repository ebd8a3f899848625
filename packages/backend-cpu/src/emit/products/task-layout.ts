/** The operands of a product, in the order in which the frame has their addresses. */
export const operandNames = ['left', 'right', 'result', 'addend', 'packed', 'tasks'] as const;
export type OperandName = (typeof operandNames)[number];

/** The byte offset of an operand's address in the frame. */
export function operandOffset(name: OperandName): number {
  return 8 * operandNames.indexOf(name);
}

/**
 * The fields of each kind of task, in words of 8 bytes. `routine` is the address of the code that carries out the task.
 */
export const taskFields = {
  /** Packs panels, which are rows of the left operand or columns of the right one. */
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
  /** Multiplies panels of rows by panels of columns. */
  multiply: [
    'routine',
    'kernel',
    'lastKernel',
    'leftOperand',
    'leftOffset',
    'leftStrideBytes',
    'leftStepBytes',
    'rightOperand',
    'rightOffset',
    'rightStrideBytes',
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

/** The bytes from one task to the next. */
export const TASK_BYTES = 256;

/** Bits of the field `flags`, which say what a multiplication also does. */
export const taskFlags = { addsToResult: 1, scales: 2, addsAddend: 4, rounds: 8 } as const;

export function fieldOffset<K extends keyof typeof taskFields>(
  kind: K,
  field: TaskField<K>,
): number {
  const fields: readonly string[] = taskFields[kind];
  return 8 * fields.indexOf(field);
}

/** The addresses of the operands of tasks. */
export type Frame = BigUint64Array;

export function createFrame(): Frame {
  return new BigUint64Array(new ArrayBuffer(8 * operandNames.length));
}
