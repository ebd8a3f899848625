import type { ProcessorFeatures } from '../machine-code/processor.ts';

/** The rows where the processor multiplies tiles, and the units of k that it then takes at once. */
export const amxRows = 16;
export const amxUnits = 16;
/** The columns of a panel that tiles multiply. */
export const amxColumns = 32;
/** Units of k of a block: two panels of columns of so many take two thirds of the nearest cache. */
export const amxBlockUnits = 128;
/** A row of sums that wait for the next block: those of two panels. */
export const amxSumRowBytes: number = 2 * 4 * amxColumns;

/** The dtypes of operands in memory and in a packing: f32 values may be rounded to bf16 as they are packed. */
export type Packing = 'f32' | 'bf16' | 'f32 as bf16';

export function bytesOfPacking(packing: Packing): 2 | 4 {
  return packing === 'bf16' ? 2 : 4;
}

/** What is computed with: the dtype of packed operands, and that of results. */
export type ProductKind = 'f32 to f32' | 'bf16 to f32' | 'bf16 to bf16';

export function bytesOfResult(kind: ProductKind): 2 | 4 {
  return kind === 'bf16 to bf16' ? 2 : 4;
}

/**
 * How values of bf16 are multiplied: by tiles, by an instruction that adds two products, or by two multiply-adds of f32, which give
 * the same bits.
 */
export type HalfWay = 'tiles' | 'pairs' | 'floats';

export function halfWayOf({ bf16, tiles }: ProcessorFeatures): HalfWay {
  return tiles ? 'tiles' : bf16 ? 'pairs' : 'floats';
}

/** Elements along k that lie together in a packing: a unit. */
export function unitElements(packing: Packing | ProductKind): 1 | 2 {
  return packing === 'f32' || packing === 'f32 to f32' ? 1 : 2;
}

/**
 * How a panel lies in memory. Unit by unit: the elements of all lanes, or pairs of them, or the second ones of all lanes and then the first
 * ones, as f32. In tiles of 16 lanes by 16 units: lane by lane.
 */
export interface PanelShape {
  readonly lanes: number;
  readonly form: 'elements' | 'pairs' | 'floats' | 'tiles';
}

/** Bytes of a unit of a lane. */
export function unitBytesOf(form: PanelShape['form']): 4 | 8 {
  return form === 'floats' ? 8 : 4;
}
