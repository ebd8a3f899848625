import {
  dtypes,
  type Instruction,
  type Program,
  type Shape,
  type ValueType,
} from '@shardwise/core/spec';
import { storageOf } from '../wgsl/registers.ts';

export function countOf(shape: Shape): number {
  return shape.reduce((product, size) => product * size, 1);
}

export function bytesOf({ shape, dtype }: ValueType): number {
  return countOf(shape) * dtypes[dtype].bytes;
}

/** The values of a program, by id: inputs first, then one for each instruction. */
export class Values {
  readonly inputCount: number;
  readonly #types: ValueType[];
  readonly #instructions: Instruction[];
  readonly #origins: readonly number[] | undefined;

  /**
   * `origins` gives, for each instruction, the number of the program's instruction of which it was made. Default: its
   * own number.
   */
  constructor(
    { inputs, instructions }: Pick<Program, 'inputs' | 'instructions'>,
    origins?: readonly number[],
  ) {
    this.inputCount = inputs.length;
    this.#types = [...inputs, ...instructions];
    this.#instructions = [...instructions];
    this.#origins = origins;
  }

  get count(): number {
    return this.#types.length;
  }

  type(id: number): ValueType {
    const type = this.#types[id];
    if (type === undefined) throw new RangeError(`no value ${id}`);
    return type;
  }

  shape(id: number): Shape {
    return this.type(id).shape;
  }

  /** The instruction that makes a value. Undefined for inputs. */
  instruction(id: number): Instruction | undefined {
    return this.#instructions[id - this.inputCount];
  }

  /**
   * The number of the program's instruction that a value comes from. An instruction that was added has the origin of
   * its first input.
   */
  origin(id: number): number {
    const number = id - this.inputCount;
    const [input] = this.instruction(id)?.inputs ?? [];
    const own = this.#origins === undefined ? number : this.#origins[number];
    return own ?? (input === undefined ? number : this.origin(input));
  }

  /** Adds an instruction and returns the id of its result. */
  add(instruction: Instruction): number {
    this.#types.push(instruction);
    this.#instructions.push(instruction);
    return this.#types.length - 1;
  }
}

export function inputAt({ inputs }: Instruction, index: number): number {
  const id = inputs[index];
  if (id === undefined) throw new RangeError(`input ${index} of ${inputs.length}`);
  return id;
}

/** The number of words of a value in memory. The last word may be used in part. */
export function wordsOf(values: Values, id: number): number {
  const { shape, dtype } = values.type(id);
  return Math.ceil((countOf(shape) * storageOf[dtype].bytes) / 4);
}
