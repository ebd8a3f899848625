import type { Assembler } from '../assembler.ts';
import { at, type Memory, rsp, type Vector } from '../operands.ts';
import { move, type Source } from './emit-operation.ts';
import { NoLanesError } from './lane-graph.ts';

const VECTOR_BYTES = 64;
/** The number of vectors for which a loop has place on the stack. */
export const MAX_SLOTS = 256;

/** Hands out places for vectors on the stack. A place is used for as long as the loop runs. */
export class Slots {
  #count = 0;

  /** Returns a new place. Throws NoLanesError if there are no more. */
  take(): Memory {
    if (this.#count === MAX_SLOTS) throw new NoLanesError('a loop with too many values at once');
    return at(rsp, VECTOR_BYTES * this.#count++);
  }
}

/**
 * Knows which values of code without jumps lie in which registers. Values are named by numbers. The positions at which
 * each value is read are known before.
 */
export class VectorRegisters {
  readonly #code: Assembler;
  readonly #slots: Slots;
  readonly #vector: (index: number) => Vector;
  readonly #free: number[];
  readonly #inRegister = new Map<number, number>();
  /** Values that lie in memory. They stay there. */
  readonly #homes: Map<number, Source>;
  /** For each value, the positions at which it is still read. The next one comes last. */
  readonly #reads = new Map<number, number[]>();

  /** Registers from `count` on are not used. `homes` are values that lie in memory. */
  constructor(
    code: Assembler,
    slots: Slots,
    vector: (index: number) => Vector,
    count: number,
    homes: ReadonlyMap<number, Source>,
    reads: readonly (readonly number[])[],
  ) {
    this.#code = code;
    this.#slots = slots;
    this.#vector = vector;
    this.#free = Array.from({ length: count }, (_, index) => count - 1 - index);
    this.#homes = new Map(homes);
    for (const [position, values] of [...reads.entries()].toReversed()) {
      for (const value of new Set(values)) {
        const known = this.#reads.get(value);
        if (known === undefined) this.#reads.set(value, [position]);
        else known.push(position);
      }
    }
  }

  isInRegister(value: number): boolean {
    return this.#inRegister.has(value);
  }

  /** Returns where a value lies. */
  source(value: number): Source {
    const register = this.#inRegister.get(value);
    if (register !== undefined) return { kind: 'vector', vector: this.#vector(register) };
    const home = this.#homes.get(value);
    if (home === undefined) throw new RangeError(`value ${value} of a loop is nowhere`);
    return home;
  }

  /** Returns a register with the value, and loads it if necessary. The values of `kept` stay in their registers. */
  register(value: number, kept: readonly number[]): Vector {
    const register = this.#inRegister.get(value);
    if (register !== undefined) return this.#vector(register);
    const source = this.source(value);
    const target = this.define(value, kept);
    move(this.#code, target, source);
    return target;
  }

  /** Returns a register for a value that is about to be computed. The values of `kept` stay in their registers. */
  define(value: number, kept: readonly number[]): Vector {
    const register = this.#free.pop() ?? this.#evicted(kept);
    this.#inRegister.set(value, register);
    return this.#vector(register);
  }

  /** Frees the registers of those of `values` that are not read behind this position. */
  passed(position: number, values: readonly number[]): void {
    for (const value of new Set(values)) {
      const reads = this.#reads.get(value);
      if (reads?.at(-1) === position) reads.pop();
      if (reads !== undefined && reads.length > 0) continue;
      const register = this.#inRegister.get(value);
      if (register === undefined) continue;
      this.#inRegister.delete(value);
      this.#free.push(register);
    }
  }

  /**
   * Frees the register of the value whose next read is furthest away. Stores the value first, if it does not lie in
   * memory.
   */
  #evicted(kept: readonly number[]): number {
    let [chosen, latest] = [-1, -1];
    for (const value of this.#inRegister.keys()) {
      const next = this.#reads.get(value)?.at(-1) ?? Number.POSITIVE_INFINITY;
      if (next <= latest || kept.includes(value)) continue;
      [chosen, latest] = [value, next];
    }
    const register = this.#inRegister.get(chosen);
    if (register === undefined) throw new NoLanesError('an operation with too many operands');
    if (!this.#homes.has(chosen)) {
      const memory = this.#slots.take();
      this.#code.vstore('vmovups', memory, this.#vector(register));
      this.#homes.set(chosen, { kind: 'memory', memory, broadcast: false });
    }
    this.#inRegister.delete(chosen);
    return register;
  }
}
