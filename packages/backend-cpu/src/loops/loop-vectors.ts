import { type Mask, type Memory, type Vector, ymm, zmm } from '../machine-code/operands.ts';
import type { VectorInstructions } from '../machine-code/processor.ts';

/**
 * Elements of 32 bits that loops walk over at least at once. Sums are kept apart for so many, whatever a vector has, so that all
 * processors add in one order.
 */
export const LANES = 16;

/** The vectors that loops are made of. */
export interface LoopVectors {
  readonly instructions: VectorInstructions;
  /** Elements of 32 bits of a vector. */
  readonly lanes: 16 | 8;
  readonly registers: 32 | 16;
  /** How many registers operations and stores may change beside those that they are given. */
  readonly spares: 1 | 2;
  readonly vector: (index: number) => Vector;
}

const wide: LoopVectors = {
  instructions: 'AVX-512',
  lanes: 16,
  registers: 32,
  spares: 1,
  vector: zmm,
};

const narrow: LoopVectors = {
  instructions: 'AVX2',
  lanes: 8,
  registers: 16,
  spares: 2,
  vector: ymm,
};

export function loopVectors(instructions: VectorInstructions): LoopVectors {
  return instructions === 'AVX-512' ? wide : narrow;
}

/** Registers whose contents nobody needs; with AVX-512 they are one. */
export type Spares = readonly [Vector, Vector];

/** Which elements of a vector there are: a register says it, or memory does, by a vector and by their number. */
export type Left = Mask | { readonly kind: 'left'; readonly lanes: Memory; readonly count: Memory };
