import { isElementwise } from '../wgsl/elementwise.ts';
import { countOf, type Values } from '../program/values.ts';

/**
 * Whether a kernel that makes an element reads only the element of the same number of a value in memory, or also
 * others.
 */
export type ReadKind = 'same element' | 'any element';

/** Finds out which values in memory the computation of a value's elements reads. */
export class Reads {
  readonly #values: Values;
  readonly #inMemory: ReadonlySet<number>;
  readonly #known = new Map<number, ReadonlyMap<number, ReadKind>>();

  constructor(values: Values, inMemory: ReadonlySet<number>) {
    this.#values = values;
    this.#inMemory = inMemory;
  }

  /** The reads of a kernel that reads a value. They are the value itself if it lies in memory. */
  of(id: number): ReadonlyMap<number, ReadKind> {
    return this.#inMemory.has(id) ? new Map([[id, 'same element']]) : this.ofInputs(id);
  }

  /** The reads of a kernel that computes a value. */
  ofInputs(id: number): ReadonlyMap<number, ReadKind> {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const reads = new Map<number, ReadKind>();
    for (const input of this.#values.instruction(id)?.inputs ?? []) {
      const keeps = this.#keepsPlaces(id, input);
      for (const [read, kind] of this.of(input)) {
        if (countOf(this.#values.shape(read)) === 0) continue;
        const both = keeps && kind === 'same element' && reads.get(read) !== 'any element';
        reads.set(read, both ? 'same element' : 'any element');
      }
    }
    this.#known.set(id, reads);
    return reads;
  }

  #keepsPlaces(id: number, input: number): boolean {
    const instruction = this.#values.instruction(id);
    if (instruction === undefined) return false;
    const { op } = instruction;
    if (isElementwise(instruction) || op === 'gelu' || op === 'geluGrad') return true;
    const isSame = countOf(this.#values.shape(input)) === countOf(instruction.shape);
    return isSame && (op === 'reshape' || op === 'expand');
  }
}
