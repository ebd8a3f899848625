import type { Packing, ProductKind } from './product-kinds.ts';

/** Where the elements of a matrix lie. Strides are in elements, and at least one of them is 1. */
export interface MatrixLayout {
  readonly byteOffset: number;
  readonly rowStride: number;
  readonly columnStride: number;
}

/** One product of matrices: result = scale * left * right + addend, rounded to bf16 if `rounds` is set. */
export interface MatrixProduct {
  readonly kind: ProductKind;
  readonly leftPacking: Packing;
  readonly rightPacking: Packing;
  /** The rows and columns of the result, and `depth`, the number of terms of each sum. */
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly left: MatrixLayout;
  readonly right: MatrixLayout;
  /** The columns of a row of the result are adjacent. */
  readonly result: { readonly byteOffset: number; readonly rowStride: number };
  readonly scale: number;
  /** An f32 matrix whose columns are adjacent. A row stride of 0 adds one row to all rows. */
  readonly addend: { readonly byteOffset: number; readonly rowStride: number } | null;
  /** Whether sums continue those that the result has already, so that their terms are added one by one. */
  readonly continues?: true;
  /** Whether f32 results are rounded to the precision of bf16. */
  readonly rounds: boolean;
}
