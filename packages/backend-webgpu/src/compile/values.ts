import {
  dtypes,
  type Instruction,
  type Program,
  type Shape,
  type ValueType,
} from '@shardwise/core/spec';

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

  constructor({ inputs, instructions }: Pick<Program, 'inputs' | 'instructions'>) {
    this.inputCount = inputs.length;
    this.#types = [...inputs, ...instructions];
    this.#instructions = [...instructions];
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

  /** Adds an instruction, and says which value is its result. */
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
