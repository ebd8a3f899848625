import type { NativeCode } from '../../memory/executable-memory.ts';
import type { Address } from '../../memory/host-address.ts';
import type { Packing, ProductKind } from '../../program/work/product-kinds.ts';

export type Side = 'left' | 'right';

/** The routines of products in executable memory. */
export interface ProductCode {
  /** Carries out the tasks of a frame (task-layout.ts). */
  readonly run: NativeCode;
  /**
   * The routine that packs panels of one operand. `transposes` says that the elements along k lie together in memory.
   */
  packing(side: Side, packing: Packing, transposes: boolean): Address;
  /** Whether multiplications ask for what is packed next (read-ahead.ts). */
  readonly readsAhead: boolean;
  /** Whether there are routines that pack a right operand of blocks. */
  readonly decodesBlocks: boolean;
  multiply(kind: ProductKind): Address;
  /** The routine of a task that repeats other tasks, with right operands that lie elsewhere each time. */
  readonly repeat: Address;
  /** The routine of a task that calls a loop. The call (lanes/loop-code.ts) lies behind the task's first word. */
  readonly callLoop: Address;
  /**
   * The kernel for panels with this many rows. Undefined if there is none for such a source, or if the `multiply` routine
   * takes panels of any number of rows.
   */
  tile(kind: ProductKind, source: TileSource, rows: number): Address | undefined;
  panels(kind: ProductKind): Panels;
  /** The routines by which threads share parts (emit-crew.ts). Absent: each part is a call of its own. */
  readonly crew?: { readonly work: NativeCode; readonly help: NativeCode };
}

/** The sizes of panels for a kind of product. */
export interface Panels {
  readonly rows: number;
  readonly columns: number;
  /** Packings have a multiple of this many units of k. */
  readonly unitMultiple: number;
  /** The bytes of one unit of one lane. */
  readonly unitBytes: number;
}

/**
 * Where the kernel finds its operands: both packed; the rows in the operand, if a row's units lie together there; the
 * columns in the operand, if a unit's columns lie together there; or columns whose units lie together in the operand, which are
 * transposed in registers. The last one finds rows of f32 in their operand, too.
 */
export type TileSource = 'packed' | 'operand' | 'columns' | 'transposed';
