/** How many rows of the left operand, and columns of the right one, a kernel multiplies at once. */
export const tileRows = 14;
export const tileColumns = 32;

/** The dtypes of operands in memory and in a packing: f32 values may be rounded to bf16 as they are packed. */
export const packings = ['f32', 'bf16', 'f32 as bf16'] as const;
export type Packing = (typeof packings)[number];

/** What is computed with: the dtype of packed operands, and that of results. */
export const productKinds = ['f32 to f32', 'bf16 to f32', 'bf16 to bf16'] as const;
export type ProductKind = (typeof productKinds)[number];

/** Elements along k that lie together in a packing, in 4 bytes. */
export function unitElements(packing: Packing | ProductKind): 1 | 2 {
  return packing === 'f32' || packing === 'f32 to f32' ? 1 : 2;
}
