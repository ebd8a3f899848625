/** How many rows of the left operand, and columns of the right one, a kernel multiplies at once. */
export const tileRows = 14;
export const tileColumns = 32;
/** The rows where the processor multiplies tiles, and the units of k that it then takes at once. */
export const amxRows = 16;
export const amxUnits = 16;
/** Units of k of a block: two panels of columns of so many take two thirds of the nearest cache. */
export const amxBlockUnits = 128;
/** A row of sums that wait for the next block: those of two panels. */
export const amxSumRowBytes: number = 2 * 4 * tileColumns;

/** The dtypes of operands in memory and in a packing: f32 values may be rounded to bf16 as they are packed. */
export type Packing = 'f32' | 'bf16' | 'f32 as bf16';

/** What is computed with: the dtype of packed operands, and that of results. */
export type ProductKind = 'f32 to f32' | 'bf16 to f32' | 'bf16 to bf16';

/** Elements along k that lie together in a packing, in 4 bytes. */
export function unitElements(packing: Packing | ProductKind): 1 | 2 {
  return packing === 'f32' || packing === 'f32 to f32' ? 1 : 2;
}

/** How a panel lies in memory: unit by unit, or in tiles of 16 lanes by 16 units, lane by lane. */
export interface PanelShape {
  readonly lanes: number;
  readonly inTiles: boolean;
}
