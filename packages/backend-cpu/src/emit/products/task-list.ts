import {
  fieldOffset,
  type OperandName,
  operandOffset,
  TASK_BYTES,
  type TaskField,
  taskFlags,
} from './task-layout.ts';

type Flags = Readonly<Record<keyof typeof taskFlags, boolean>>;

type Fields<K extends 'pack' | 'multiply'> = {
  readonly [F in TaskField<K>]: F extends 'routine' | 'kernel' | 'lastKernel'
    ? bigint
    : F extends 'operand' | 'leftOperand' | 'rightOperand'
      ? OperandName
      : F extends 'flags'
        ? Flags
        : number;
};

const taskWords = TASK_BYTES / 8;

/** Collects tasks in the form that machine code reads. */
export class TaskList {
  readonly #words: bigint[] = [];

  add<K extends 'pack' | 'multiply'>(kind: K, fields: Fields<K>): void {
    const words = Array.from({ length: taskWords }, () => 0n);
    for (const [field, value] of Object.entries<Fields<K>[TaskField<K>]>(fields)) {
      words[fieldOffset(kind, field as TaskField<K>) / 8] = wordOf(field, value);
    }
    this.#words.push(...words);
  }

  /** Adds a task that calls a loop. Returns the index of the word at which the call begins. */
  addCall(routine: bigint, call: readonly bigint[]): number {
    const start = this.#words.length + 1;
    const none = Array.from({ length: taskWords - 1 - call.length }, () => 0n);
    this.#words.push(routine, ...call, ...none);
    return start;
  }

  /** Returns the words of all tasks. A task whose routine is 0 ends them. */
  finish(): BigUint64Array {
    const words = new BigUint64Array(new ArrayBuffer(8 * (this.#words.length + taskWords)));
    words.set(this.#words);
    return words;
  }
}

function wordOf(field: string, value: bigint | OperandName | Flags | number): bigint {
  if (typeof value === 'bigint') return value;
  if (typeof value === 'string') return BigInt(operandOffset(value));
  if (typeof value === 'object') {
    let bits = 0;
    if (value.addsToResult) bits |= taskFlags.addsToResult;
    if (value.scales) bits |= taskFlags.scales;
    if (value.addsAddend) bits |= taskFlags.addsAddend;
    if (value.rounds) bits |= taskFlags.rounds;
    return BigInt(bits);
  }
  if (field === 'scale') return BigInt(new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0);
  return BigInt(value);
}
