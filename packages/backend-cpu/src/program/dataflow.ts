import type { CpuProgram, CpuInstruction } from './instruction.ts';

/**
 * Whether an instruction is lazy: a partition repeats it wherever it needs the result, instead of reading the result
 * from memory.
 */
function isLazy(instruction: CpuInstruction, repeated: ReadonlySet<number>): boolean {
  if (instruction.op === 'constant' || instruction.op === 'expand' || instruction.op === 'reshape')
    return true;
  return repeated.has(instruction.output);
}

/**
 * Knows which instruction makes a value of a program, and which values in memory an instruction reads. Lazy
 * instructions are looked through: constants, expands, reshapes, and those in `repeated`: f32 values of 16-bit ones,
 * inputs that products round as they pack them, and heads that attention reads where they lie. Those in `stored` are
 * not lazy, but computed into memory like any other instruction.
 */
export class Dataflow {
  readonly #producers: ReadonlyMap<number, CpuInstruction>;
  readonly #stored: ReadonlySet<number>;
  readonly #repeated: ReadonlySet<number>;

  constructor(program: CpuProgram, repeated: ReadonlySet<number>, stored: ReadonlySet<number>) {
    this.#producers = new Map(
      program.instructions.map((instruction) => [instruction.output, instruction]),
    );
    this.#stored = stored;
    this.#repeated = repeated;
  }

  /** Returns the instruction that makes a value. Returns undefined for an input. */
  producer(id: number): CpuInstruction | undefined {
    return this.#producers.get(id);
  }

  /**
   * Returns the instruction that a partition repeats to have the value. Returns undefined if the partition reads the
   * value from memory.
   */
  lazy(id: number): CpuInstruction | undefined {
    const instruction = this.#producers.get(id);
    return instruction !== undefined && isLazy(instruction, this.#repeated) && !this.#stored.has(id)
      ? instruction
      : undefined;
  }

  /** The values in memory that an instruction reads, directly or through lazy instructions. */
  sources(instruction: CpuInstruction): Set<number> {
    const found = new Set<number>();
    const pending = [...instruction.inputs];
    for (let id = pending.pop(); id !== undefined; id = pending.pop()) {
      const lazy = this.lazy(id);
      if (lazy === undefined) found.add(id);
      else pending.push(...lazy.inputs);
    }
    return found;
  }

  /**
   * Returns the value in memory that this value is a reshape of. Returns undefined if lazy instructions other than
   * reshapes lie between.
   */
  root(id: number): number | undefined {
    let current = id;
    for (;;) {
      const lazy = this.lazy(current);
      if (lazy === undefined) return current;
      const [input] = lazy.inputs;
      if (lazy.op !== 'reshape' || input === undefined) return undefined;
      current = input;
    }
  }
}

/** The instructions that read each value. */
export function readersOf(
  instructions: readonly CpuInstruction[],
): ReadonlyMap<number, readonly CpuInstruction[]> {
  const readers = new Map<number, CpuInstruction[]>();
  for (const instruction of instructions) {
    for (const id of new Set(instruction.inputs)) {
      const known = readers.get(id);
      if (known === undefined) readers.set(id, [instruction]);
      else known.push(instruction);
    }
  }
  return readers;
}
