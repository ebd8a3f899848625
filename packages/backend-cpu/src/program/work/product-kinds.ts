/**
 * The dtype of an operand in memory, and in a packing if that differs: f32 values may be rounded to bf16 as they are
 * packed.
 */
export type Packing = 'f32' | 'bf16' | 'f32 as bf16';

export function bytesOfPacking(packing: Packing): 2 | 4 {
  return packing === 'bf16' ? 2 : 4;
}

/** The dtype of packed operands, and the dtype of results. */
export type ProductKind = 'f32 to f32' | 'bf16 to f32' | 'bf16 to bf16';

export function bytesOfResult(kind: ProductKind): 2 | 4 {
  return kind === 'bf16 to bf16' ? 2 : 4;
}
