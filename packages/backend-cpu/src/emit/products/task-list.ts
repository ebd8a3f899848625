import {
  type OperandName,
  operandOffset,
  TASK_BYTES,
  type TaskField,
  taskFields,
  taskFlags,
} from './task-layout.ts';

type Flags = Readonly<Record<keyof typeof taskFlags, boolean>>;

type Fields<K extends keyof typeof taskFields> = {
  readonly [F in TaskField<K>]: F extends 'routine' | 'kernel' | 'lastKernel'
    ? bigint
    : F extends 'operand' | 'leftOperand' | 'rightOperand'
      ? OperandName
      : F extends 'flags'
        ? Flags
        : number;
};

const taskWords = TASK_BYTES / 8;

/** Collects tasks in the form that machine code reads. A program of many products has thousands of them. */
export class TaskList {
  /** The words of tasks, each as its lower and its upper half. */
  #halves = new Uint32Array(2 * 16 * taskWords);
  #words = 0;

  add<K extends keyof typeof taskFields>(kind: K, fields: Fields<K>): void {
    let word = this.#reserve();
    const names: readonly TaskField<K>[] = taskFields[kind];
    for (const name of names) this.#set(word++, valueOf(name, fields[name]));
  }

  /** Adds a task that calls a loop. Returns the index of the word at which the call begins. */
  addCall(routine: bigint, call: readonly bigint[]): number {
    let word = this.#reserve();
    const start = word + 1;
    this.#set(word++, routine);
    for (const each of call) this.#set(word++, each);
    return start;
  }

  /** Forgets all tasks, and keeps their memory. */
  restart(): void {
    this.#words = 0;
  }

  /** Ends the tasks, and returns the memory in which they lie. It changes with the next task. */
  end(): Uint8Array {
    const first = this.#reserve();
    this.#set(first, 0);
    return new Uint8Array(this.#halves.buffer);
  }

  /** Returns the words of all tasks. A task whose routine is 0 ends them. */
  finish(): BigUint64Array {
    this.#reserve();
    return new BigUint64Array(this.#halves.slice(0, 2 * this.#words).buffer);
  }

  /** Returns the index of the first word of a further task, whose words are 0. */
  #reserve(): number {
    const first = this.#words;
    this.#words += taskWords;
    if (2 * this.#words > this.#halves.length) {
      const more = new Uint32Array(2 * this.#halves.length);
      more.set(this.#halves);
      this.#halves = more;
    }
    return first;
  }

  #set(word: number, value: bigint | number): void {
    if (typeof value === 'bigint') {
      this.#halves[2 * word] = Number(value & 0xffff_ffffn);
      this.#halves[2 * word + 1] = Number((value >> 32n) & 0xffff_ffffn);
    } else {
      this.#halves[2 * word] = value;
      this.#halves[2 * word + 1] = Math.floor(value / 2 ** 32);
    }
  }
}

function valueOf(name: string, value: bigint | OperandName | Flags | number): bigint | number {
  if (typeof value === 'string') return operandOffset(value);
  if (typeof value === 'object') {
    let bits = 0;
    if (value.addsToResult) bits |= taskFlags.addsToResult;
    if (value.scales) bits |= taskFlags.scales;
    if (value.addsAddend) bits |= taskFlags.addsAddend;
    if (value.rounds) bits |= taskFlags.rounds;
    return bits;
  }
  if (name === 'scale' && typeof value === 'number') {
    return new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0;
  }
  return value;
}
