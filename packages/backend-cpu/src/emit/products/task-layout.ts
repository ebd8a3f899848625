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
    // What is packed next, which the multiplication of f32 asks for.
    'aheadOffset',
    'aheadStrideBytes',
    'aheadCallBytes',
    'aheadPanelBytes',
    'aheadCalls',
  ],
  /** Carries out other tasks once for each entry of a table, which says where their right operand lies. */
  repeat: [
    'routine',
    'tasks',
    'tasksEnd',
    'table',
    'tableEnd',
    'left',
    'leftStep',
    'right',
    'result',
    'resultStep',
    'flagsOffset',
  ],
} as const;

export type TaskField<K extends keyof typeof taskFields> = (typeof taskFields)[K][number];

/** The bytes from one task to the next. */
export const TASK_BYTES = 320;

/**
 * The words of a task that is repeated, behind its fields. The field at byte `field` of the task becomes `base` plus the
 * number that lies `moved` bytes into the memory of `repeat`. The result's offset becomes `resultBase` plus the place of the
 * result. The flags are those of the first block, or of the blocks behind it.
 */
export const repeatedWords = {
  field: 31,
  base: 32,
  moved: 33,
  resultBase: 34,
  firstFlags: 35,
  otherFlags: 36,
} as const;

/** The memory of `repeat`, in bytes: the task, the place in the table, and the numbers by which operands are moved. */
export const repeatMemory = {
  task: 0,
  table: 8,
  flagsOffset: 16,
  nothing: 24,
  left: 32,
  right: 40,
  result: 48,
  byteLength: 56,
} as const;

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
