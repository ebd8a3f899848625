import { TILE_TURN_UNITS } from '../../emit/products/panels.ts';
import type { ProductCode } from '../../emit/products/product-code.ts';
import type { MatrixProduct } from '../../program/work/matrix-product.ts';
import { type Block, MOST_OF_FEW } from './operand-panels.ts';

/**
 * What a multiplication asks for while it computes: lines of the columns that are packed behind it. Each of the first `calls`
 * kernels of a panel of columns asks for lines that are `strideBytes` apart. The next kernel begins `callBytes` behind it, and
 * the next panel `panelBytes` behind its first one.
 */
export interface ReadAhead {
  readonly aheadOffset: number;
  readonly aheadStrideBytes: number;
  readonly aheadCallBytes: number;
  readonly aheadPanelBytes: number;
  readonly aheadCalls: number;
}

export const readNothing: ReadAhead = {
  aheadOffset: 0,
  aheadStrideBytes: 0,
  aheadCallBytes: 0,
  aheadPanelBytes: 0,
  aheadCalls: 0,
};

/** The columns and the terms of sums that are packed at once. */
export type PackedBlock = Readonly<Record<'across' | 'along', Block>>;

/**
 * Says what of `next` is asked for while `block` is multiplied. With few rows, memory takes as long as multiplying does, and
 * both happen at the same time then. With many rows, what is asked for would not stay in the cache until it is packed.
 */
export function readAhead(
  product: MatrixProduct,
  code: Pick<ProductCode, 'readsAhead' | 'panels'>,
  block: PackedBlock,
  next: PackedBlock | undefined,
): ReadAhead {
  const { kind, rows, right, rightPacking } = product;
  if (next === undefined || !code.readsAhead || rows > MOST_OF_FEW) return readNothing;
  if (kind !== 'f32 to f32' || rightPacking !== 'f32') return readNothing;
  const panels = code.panels(kind);
  const lineBytes = 4 * panels.columns;
  const linesOfCall = Math.floor(block.along.size / TILE_TURN_UNITS);
  const { across, along } = next;
  const aheadOffset =
    right.byteOffset + 4 * (along.start * right.rowStride + across.start * right.columnStride);
  if (right.columnStride === 1) {
    // Each unit of a panel is a line.
    const aheadStrideBytes = 4 * right.rowStride;
    return {
      aheadOffset,
      aheadStrideBytes,
      aheadCallBytes: linesOfCall * aheadStrideBytes,
      aheadPanelBytes: lineBytes,
      aheadCalls: Math.ceil(along.size / Math.max(1, linesOfCall)),
    };
  }
  if (right.rowStride !== 1) return readNothing;
  // Each column has lines. A kernel asks for a line of many columns.
  const columnPanels = Math.ceil(block.across.size / panels.columns);
  const aheadCalls = Math.ceil((4 * along.size) / lineBytes / columnPanels);
  return {
    aheadOffset,
    aheadStrideBytes: 4 * right.columnStride,
    aheadCallBytes: lineBytes,
    aheadPanelBytes: aheadCalls * lineBytes,
    aheadCalls,
  };
}
