import { Assembler } from '../machine-code/assembler.ts';
import type { Label } from '../machine-code/code.ts';
import { type Address, codeAt, type NativeCode, placeCode } from '../machine-code/code-pages.ts';
import { emitCalls } from '../machine-code/emit-calls.ts';
import { at, r15, rbp, rdi } from '../machine-code/operands.ts';
import { type ProcessorFeatures, requireAvx512 } from '../machine-code/processor.ts';
import { emitMultiply } from './emit-multiply.ts';
import { emitPacking } from './emit-packing.ts';
import { emitTile, type RowSource } from './emit-tile.ts';
import { emitTiles } from './emit-tiles.ts';
import {
  amxRows,
  amxUnits,
  type Packing,
  type ProductKind,
  tileColumns,
  tileRows,
} from './product-types.ts';
import { operandAddress, taskBytes } from './task-layout.ts';

export type Side = 'left' | 'right';

/** The routines of products in executable memory. */
export interface ProductCode {
  /** Carries out the tasks of a frame (task-layout.ts). */
  readonly run: NativeCode;
  /** Packs panels of one operand; `transposes` where the elements along k lie together. */
  packing(side: Side, packing: Packing, transposes: boolean): Address;
  multiply(kind: ProductKind): Address;
  /** The kernel of a panel with that many rows. Undefined where one routine takes panels of any. */
  tile(kind: ProductKind, source: RowSource, rows: number): Address | undefined;
  /** Rows of a panel, and of how many units of k packings have multiples. */
  panels(kind: ProductKind): { readonly rows: number; readonly unitMultiple: number };
}

/** Assembles the routines for this processor. Throws an error that says why where they cannot be run. */
export function createProductCode(features: ProcessorFeatures): ProductCode {
  requireAvx512(features);
  const { bf16, tiles } = features;
  const code = new Assembler();
  const run = emitRun(code);
  const packings: readonly Packing[] = bf16 ? ['f32', 'bf16', 'f32 as bf16'] : ['f32'];
  const kinds: readonly ProductKind[] = bf16
    ? ['f32 to f32', 'bf16 to f32', 'bf16 to bf16']
    : ['f32 to f32'];
  const labels = new Map<string, Label>();
  for (const packing of packings) {
    for (const transposes of [false, true]) {
      const inTiles = tiles && packing !== 'f32';
      const lanes = inTiles ? amxRows : tileRows;
      const left = emitPacking(code, packing, { lanes, inTiles }, transposes);
      const columns = { lanes: tileColumns, inTiles: false };
      labels.set(`left ${packing} ${transposes}`, left);
      labels.set(`right ${packing} ${transposes}`, emitPacking(code, packing, columns, transposes));
    }
  }
  for (const kind of kinds) {
    if (tiles && kind !== 'f32 to f32') {
      labels.set(`multiply ${kind}`, emitTiles(code, kind));
      continue;
    }
    for (const source of ['packed', 'operand'] as const) {
      for (let rows = 1; rows <= tileRows; rows++) {
        labels.set(`tile ${kind} ${source} ${rows}`, emitTile(code, kind, source, rows));
      }
    }
    labels.set(`multiply ${kind}`, emitMultiply(code, kind));
  }
  const start = placeCode(code.finish());
  const addressOf = (label: Label | undefined): Address => {
    if (label?.byteOffset === undefined) throw new RangeError('no such routine');
    return start + BigInt(label.byteOffset);
  };
  return {
    run: codeAt(addressOf(run)),
    packing: (side, packing, transposes) =>
      addressOf(labels.get(`${side} ${packing} ${transposes}`)),
    multiply: (kind) => addressOf(labels.get(`multiply ${kind}`)),
    tile: (kind, source, rows) => {
      const label = labels.get(`tile ${kind} ${source} ${rows}`);
      return label && addressOf(label);
    },
    panels: (kind) =>
      tiles && kind !== 'f32 to f32'
        ? { rows: amxRows, unitMultiple: amxUnits }
        : { rows: tileRows, unitMultiple: 1 },
  };
}

/** Calls the routine of one task after the other, up to one without. rdi: the frame. */
function emitRun(code: Assembler): Label {
  const start = code.entry();
  emitCalls(code, {
    begin: () => {
      code.mov(rbp, rdi);
      code.mov(r15, operandAddress('tasks'));
    },
    routine: at(r15),
    byteLength: taskBytes,
  });
  return start;
}
