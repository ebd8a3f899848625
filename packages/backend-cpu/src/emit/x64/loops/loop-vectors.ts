import { type Mask, type Memory, type Vector, ymm, zmm } from '../operands.ts';
import type { VectorInstructions } from '../processor.ts';

/**
 * The smallest number of 32-bit elements that loops handle at once. Sums are kept in this many lanes, however many a
 * vector has, so that all processors add in the same order.
 */
export const LANES = 16;

/** The vectors that loops are written for. */
export interface LoopVectors {
  readonly instructions: VectorInstructions;
  /** The number of 32-bit elements in a vector. */
  readonly lanes: 16 | 8;
  readonly registers: 32 | 16;
  /** How many registers operations and stores may change in addition to those that they are given. */
  readonly spares: 1 | 2;
  readonly vector: (index: number) => Vector;
  /** Whether the processor has an instruction that rounds to bf16. */
  readonly roundsToBfloat16: boolean;
}

export function loopVectors(
  instructions: VectorInstructions,
  roundsToBfloat16: boolean,
): LoopVectors {
  return instructions === 'AVX-512'
    ? { instructions, lanes: 16, registers: 32, spares: 1, vector: zmm, roundsToBfloat16 }
    : { instructions, lanes: 8, registers: 16, spares: 2, vector: ymm, roundsToBfloat16: false };
}

/** Registers that code may change freely. With AVX-512, both are the same register. */
export type Spares = readonly [Vector, Vector];

/**
 * Which elements of a vector exist. AVX-512 keeps this in a mask register. AVX2 keeps it in memory, as a vector of
 * lanes and as their number.
 */
export type Left = Mask | { readonly kind: 'left'; readonly lanes: Memory; readonly count: Memory };
