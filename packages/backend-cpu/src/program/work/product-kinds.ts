import type { GgufBlockName } from '@shardwise/core/spec';

/**
 * The dtype of an operand in memory, and in a packing if that differs: f32 values may be rounded to bf16 as they are
 * packed.
 */
export type ElementPacking = 'f32' | 'bf16' | 'f32 as bf16';

/** Blocks of a file are decoded to f32. Only packing reads such an operand, whose columns are rows of blocks. */
export type Packing = ElementPacking | GgufBlockName;

/** The bytes of the numbers that strides count: of an element, or 1 for blocks. */
export function bytesOfPacking(packing: Packing): 1 | 2 | 4 {
  if (packing === 'bf16') return 2;
  return packing.startsWith('f32') ? 4 : 1;
}

/** The dtype of packed operands, and the dtype of results. */
export type ProductKind = 'f32 to f32' | 'bf16 to f32' | 'bf16 to bf16';

export function bytesOfResult(kind: ProductKind): 2 | 4 {
  return kind === 'bf16 to bf16' ? 2 : 4;
}
