import type { ElementPacking, ProductKind } from '../../program/work/product-kinds.ts';

/** The rows of a panel for tiles, and `amxUnits`, the units of k that tiles multiply at once. */
export const AMX_ROWS = 16;
export const AMX_UNITS = 16;
/** The columns of a panel for tiles. */
export const AMX_COLUMNS = 32;
/** The units of k in a block. Two panels of columns with this many take two thirds of the nearest cache. */
export const AMX_BLOCK_UNITS = 128;
/** The bytes of a row of sums that wait for the next block of k. It has the sums of two panels. */
export const amxSumRowBytes: number = 2 * 4 * AMX_COLUMNS;

/** The units of k that a kernel transposes at once. */
export const SQUARE_UNITS = 4;

/** How many elements along k lie together in a packing. They are a unit. */
export function unitElements(packing: ElementPacking | ProductKind): 1 | 2 {
  return packing === 'f32' || packing === 'f32 to f32' ? 1 : 2;
}

/**
 * How a panel lies in memory. 'elements', 'pairs' and 'floats' are stored unit by unit: the elements of all lanes, or
 * pairs of them, or the second elements of all lanes and then the first ones, as f32. 'tiles' have 16 lanes by 16
 * units, and are stored lane by lane.
 */
export interface PanelShape {
  readonly lanes: number;
  readonly form: 'elements' | 'pairs' | 'floats' | 'tiles';
}

/** The bytes of one unit of one lane. */
export function unitBytesOf(form: PanelShape['form']): 4 | 8 {
  return form === 'floats' ? 8 : 4;
}

/** The units of k in one turn of a kernel's loop, in which it asks for one line of what is packed next. */
export const TILE_TURN_UNITS = 4;
