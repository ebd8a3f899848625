import type { Kernel } from '@shardwise/wasm-assembler';
import { libraryOf } from '../kernel-library.ts';
import { multiplyPanels } from './multiply-panels.ts';
import { packPanels } from './pack-panels.ts';
import { tileOf } from './tile.ts';

/**
 * A matrix of f32: the byte address of its first element, and the elements from row to row and from column to column.
 * One of the two strides is 1.
 */
interface Matrix {
  readonly address: number;
  readonly rowStride: number;
  readonly columnStride: number;
}

/** result = scale * left @ right + addend. The columns of the result and of the addend are adjacent. */
export interface Multiplication {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly left: Matrix;
  readonly right: Matrix;
  readonly result: { readonly address: number; readonly rowStride: number };
  readonly scale: number;
  /** The addend may be the result itself. */
  readonly addend: { readonly address: number; readonly rowStride: number } | null;
}

const ELEMENT_BYTES = 4;
/**
 * How much of each side is packed at once. A panel of the right side stays in the first-level cache, and the left side
 * in the second-level cache.
 */
const most = { rows: 96, columns: 512, depth: 256 } as const;

const upTo = (size: number, unit: number): number => Math.ceil(size / unit) * unit;

/** The bytes of memory that a multiplication of these sizes needs in addition to its operands. */
export function packedBytesOf({
  rows,
  columns,
  depth,
}: Pick<Multiplication, 'rows' | 'columns' | 'depth'>): number {
  const tile = tileOf();
  const terms = Math.min(depth, most.depth);
  const left = upTo(Math.min(rows, most.rows), tile.rows);
  const right = upTo(Math.min(columns, most.columns), tile.columns);
  return ELEMENT_BYTES * ((left + right) * terms + tile.rows * tile.columns);
}

/**
 * Multiplies matrices in a memory with kernels. `packed` is the address of packedBytesOf free bytes, a multiple of 16.
 */
export class Multiplier {
  readonly #packLeft: Packer;
  readonly #packRight: Packer;
  readonly #fresh: Kernel;
  readonly #adding: Kernel;

  constructor(memory: WebAssembly.Memory) {
    const library = libraryOf(memory);
    const tile = tileOf();
    const { rows, columns, isFused } = tile;
    const packer = (lanes: number): Packer => ({
      lanes,
      neighbours: library.kernel(`pack ${lanes} neighbours`, () => packPanels(lanes, true)),
      apart: library.kernel(`pack ${lanes}`, () => packPanels(lanes, false)),
    });
    const multiply = (addedTo: 'nothing' | 'matrix'): Kernel =>
      library.kernel(`multiply ${rows}x${columns} ${isFused} ${addedTo}`, () =>
        multiplyPanels(tile, addedTo),
      );
    this.#packLeft = packer(rows);
    this.#packRight = packer(columns);
    this.#fresh = multiply('nothing');
    this.#adding = multiply('matrix');
  }

  /**
   * Computes one product. The terms of each sum are added in the same order, whatever the result's rows and columns
   * are.
   */
  run(product: Multiplication, packed: number): void {
    const { rows, columns, depth, left, right, result, scale, addend } = product;
    const tile = tileOf();
    const leftAt = packed + ELEMENT_BYTES * tile.rows * tile.columns;
    const terms = Math.min(depth, most.depth);
    const rightAt = leftAt + ELEMENT_BYTES * terms * upTo(Math.min(rows, most.rows), tile.rows);
    for (let column = 0; column < columns; column += most.columns) {
      const someColumns = Math.min(most.columns, columns - column);
      for (let term = 0; term < depth; term += most.depth) {
        const someTerms = Math.min(most.depth, depth - term);
        const base = term > 0 ? result : addend;
        const from = elementOf(right, term, column);
        pack(
          this.#packRight,
          someColumns,
          someTerms,
          right.columnStride,
          right.rowStride,
          from,
          rightAt,
        );
        for (let row = 0; row < rows; row += most.rows) {
          const someRows = Math.min(most.rows, rows - row);
          const first = elementOf(left, row, term);
          pack(
            this.#packLeft,
            someRows,
            someTerms,
            left.rowStride,
            left.columnStride,
            first,
            leftAt,
          );
          const kernel = base === null ? this.#fresh : this.#adding;
          const place = (of: { address: number; rowStride: number }): number =>
            of.address + ELEMENT_BYTES * (row * of.rowStride + column);
          kernel(
            someRows,
            someColumns,
            someTerms,
            ELEMENT_BYTES * result.rowStride,
            ELEMENT_BYTES * (base?.rowStride ?? 0),
            leftAt,
            rightAt,
            place(result),
            base === null ? 0 : place(base),
            packed,
            scale,
          );
        }
      }
    }
  }
}

/** The kernels that pack lanes: one for adjacent lanes, and one for lanes that are apart. */
interface Packer {
  readonly lanes: number;
  readonly neighbours: Kernel;
  readonly apart: Kernel;
}

function elementOf(
  { address, rowStride, columnStride }: Matrix,
  row: number,
  column: number,
): number {
  return address + ELEMENT_BYTES * (row * rowStride + column * columnStride);
}

function pack(
  { neighbours, apart }: Packer,
  lanes: number,
  depth: number,
  laneStride: number,
  stepStride: number,
  source: number,
  target: number,
): void {
  const kernel = laneStride === 1 ? neighbours : apart;
  kernel(lanes, depth, ELEMENT_BYTES * laneStride, ELEMENT_BYTES * stepStride, source, target);
}
