import { describe, expect, test } from 'vitest';
import { readAhead, readNothing } from '../../src/engines/products/read-ahead.ts';
import type { ProductCode } from '../../src/emit/products/product-code.ts';
import type { MatrixProduct } from '../../src/program/work/matrix-product.ts';

const ROW_PANELS = 6;
const PANEL_COLUMNS = 16;
const [DEPTH, COLUMNS] = [768, 512];

const code: Pick<ProductCode, 'readsAhead' | 'panels'> = {
  readsAhead: true,
  panels: () => ({ rows: 6, columns: PANEL_COLUMNS, unitMultiple: 1, unitBytes: 4 }),
};

function product(transposes: boolean, rows = 6 * ROW_PANELS): MatrixProduct {
  return {
    kind: 'f32 to f32',
    leftPacking: 'f32',
    rightPacking: 'f32',
    rows,
    columns: COLUMNS,
    depth: DEPTH,
    left: { byteOffset: 0, rowStride: DEPTH, columnStride: 1 },
    right: transposes
      ? { byteOffset: 4096, rowStride: 1, columnStride: DEPTH }
      : { byteOffset: 4096, rowStride: COLUMNS, columnStride: 1 },
    result: { byteOffset: 0, rowStride: COLUMNS },
    scale: 1,
    addend: null,
    rounds: false,
  };
}

const block = { along: { start: 0, size: 384 }, across: { start: 0, size: 128 } };
const next = { along: { start: 0, size: 384 }, across: { start: 128, size: 128 } };

/** The elements of the right operand that are asked for, by row and column, as the kernels walk through them. */
function asked(of: MatrixProduct): ReadonlySet<string> {
  const ahead = readAhead(of, code, block, next);
  const { byteOffset, rowStride } = of.right;
  const elements = new Set<string>();
  for (let panel = 0; panel < block.across.size / PANEL_COLUMNS; panel++) {
    for (let call = 0; call < Math.min(ROW_PANELS, ahead.aheadCalls); call++) {
      for (let turn = 0; turn < block.along.size / 4; turn++) {
        const first =
          ahead.aheadOffset +
          panel * ahead.aheadPanelBytes +
          call * ahead.aheadCallBytes +
          turn * ahead.aheadStrideBytes;
        for (let at = (first - byteOffset) / 4; at < (first - byteOffset) / 4 + 16; at++) {
          const [major, minor] = rowStride === 1 ? [DEPTH, DEPTH] : [COLUMNS, COLUMNS];
          const [outer, inner] = [Math.floor(at / major), at % minor];
          elements.add(rowStride === 1 ? `${inner} ${outer}` : `${outer} ${inner}`);
        }
      }
    }
  }
  return elements;
}

describe('While it multiplies few rows, a product asks for what it packs next', () => {
  const wanted = new Set<string>();
  for (let row = 0; row < next.along.size; row++) {
    for (let column = 128; column < 256; column++) wanted.add(`${row} ${column}`);
  }

  test('all of it once, if the columns of a row lie together.', () => {
    expect(asked(product(false))).toEqual(wanted);
  });

  test('most of it, and nothing else, if the rows of a column lie together.', () => {
    const elements = asked(product(true));
    expect([...elements].filter((each) => !wanted.has(each))).toEqual([]);
    expect(elements.size / wanted.size).toBe(0.75);
  });

  test('nothing behind the last block, for many rows, and if the code cannot.', () => {
    expect(readAhead(product(false), code, block, undefined)).toBe(readNothing);
    expect(readAhead(product(false, 257), code, block, next)).toBe(readNothing);
    expect(readAhead(product(false), { ...code, readsAhead: false }, block, next)).toBe(
      readNothing,
    );
    const narrow = { ...product(false), rightPacking: 'bf16' } as const;
    expect(readAhead(narrow, code, block, next)).toBe(readNothing);
  });
});
