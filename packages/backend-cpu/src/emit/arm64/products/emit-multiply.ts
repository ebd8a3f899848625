import type { ArmAssembler } from '../assembler.ts';
import { type ArmRegister, stack, x } from '../operands.ts';
import type { TaskField } from '../../products/task-layout.ts';
import { armTile, copied, emitCopy, frame, link, loadField, loadOperand } from './task.ts';
import { skipUnless, tileOperands } from './emit-tile.ts';
import type { Label } from '../../label.ts';
import type { ProductKind } from '../../../program/work/product-kinds.ts';

/** Tiles on the stack. If a panel lacks columns, the kernel uses them as its result and its addend. */
const tileBytes = 4 * armTile.rows * armTile.columns;
const [resultTile, addendTile] = [0, tileBytes];
const [linkPlace, columnsPlace, rowsPlace] = [2 * tileBytes, 2 * tileBytes + 8, 2 * tileBytes + 16];
const stackBytes = 2 * tileBytes + 32;

const [columnPanels, rightPanel, resultColumn, addendColumn] = [x(21), x(22), x(23), x(24)];
const [rowPanels, leftPanel, resultRow, addendRow] = [x(25), x(26), x(27), x(28)];
const [scratch, other] = [x(8), x(9)];

/**
 * Writes the routine that multiplies all panels of rows by all panels of columns. A panel of columns stays in the
 * nearest cache while the panels of rows pass by. Kernels always compute all columns. If a panel lacks columns, its
 * tiles are copied to the stack and back.
 */
export function emitArmMultiply(code: ArmAssembler, kind: ProductKind): Label {
  const resultBytes = kind === 'bf16 to bf16' ? 2 : 4;
  const start = code.place();
  code.sub(stack, stack, stackBytes);
  code.move('str x', link, stack, linkPlace);
  loadField(code, columnPanels, 'multiply', 'columnPanels');
  loadOperand(code, rightPanel, 'packed');
  addField(code, rightPanel, 'rightOffset');
  loadOperand(code, resultColumn, 'result');
  addField(code, resultColumn, 'resultOffset');
  loadOperand(code, addendColumn, 'addend');
  addField(code, addendColumn, 'addendOffset');

  const nextColumns = code.place();
  emitCount(code, columnPanels, armTile.columns, 'lastColumns', columnsPlace);
  loadField(code, scratch, 'multiply', 'leftOperand');
  code.loadIndexed(leftPanel, frame, scratch);
  addField(code, leftPanel, 'leftOffset');
  loadField(code, rowPanels, 'multiply', 'rowPanels');
  code.mov(resultRow, resultColumn);
  code.mov(addendRow, addendColumn);

  const nextRows = code.place();
  const [whole, stored] = [code.label(), code.label()];
  const { left, right, units, result, resultStride, addend, addendStride, leftStride } =
    tileOperands;
  emitCount(code, rowPanels, armTile.rows, 'lastRows', rowsPlace);
  code.mov(left, leftPanel);
  code.mov(right, rightPanel);
  loadField(code, units, 'multiply', 'units');
  code.mov(result, resultRow);
  loadField(code, resultStride, 'multiply', 'resultStrideBytes');
  code.mov(addend, addendRow);
  loadField(code, addendStride, 'multiply', 'addendStrideBytes');
  loadField(code, leftStride, 'multiply', 'leftStrideBytes');
  code.move('ldr x', scratch, stack, columnsPlace);
  code.cmp(scratch, armTile.columns);
  code.jumpIf('equal', whole);

  const strideOf = (bytes: number): number => armTile.columns * bytes;
  const [noResult, noAddend] = [code.label(), code.label()];
  if (kind !== 'bf16 to bf16') {
    skipUnless(code, 'addsToResult', noResult);
    emitToStack(code, result, resultStride, resultTile);
    code.place(noResult);
  }
  skipUnless(code, 'addsAddend', noAddend);
  emitToStack(code, addend, addendStride, addendTile);
  code.place(noAddend);
  code.add(result, stack, resultTile);
  code.mov(resultStride, strideOf(resultBytes));
  code.add(addend, stack, addendTile);
  code.mov(addendStride, strideOf(4));
  emitKernelCall(code);
  code.add(copied.source, stack, resultTile);
  code.mov(copied.sourceStride, strideOf(resultBytes));
  code.mov(copied.target, resultRow);
  loadField(code, copied.targetStride, 'multiply', 'resultStrideBytes');
  emitTileCopy(code, resultBytes);
  code.jump(stored);
  code.place(whole);
  emitKernelCall(code);
  code.place(stored);

  addField(code, leftPanel, 'leftPanelBytes');
  addField(code, resultRow, 'resultStrideBytes', Math.log2(armTile.rows));
  addField(code, addendRow, 'addendStrideBytes', Math.log2(armTile.rows));
  code.subs(rowPanels, rowPanels, 1);
  code.jumpIf('notEqual', nextRows);
  addField(code, rightPanel, 'rightPanelBytes');
  code.add(resultColumn, resultColumn, strideOf(resultBytes));
  addField(code, addendColumn, 'addendPanelBytes');
  code.subs(columnPanels, columnPanels, 1);
  code.jumpIf('notEqual', nextColumns);
  code.move('ldr x', link, stack, linkPlace);
  code.add(stack, stack, stackBytes);
  code.ret();
  return start;
}

/** Stores how many rows or columns the current panel has: all, or what the field says if this is the last panel. */
function emitCount(
  code: ArmAssembler,
  panels: ArmRegister,
  all: number,
  field: 'lastColumns' | 'lastRows',
  place: number,
): void {
  const known = code.label();
  code.mov(scratch, all);
  code.cmp(panels, 1);
  code.jumpIf('greater', known);
  loadField(code, scratch, 'multiply', field);
  code.place(known);
  code.move('str x', scratch, stack, place);
}

function emitKernelCall(code: ArmAssembler): void {
  loadField(code, scratch, 'multiply', 'kernel');
  loadField(code, other, 'multiply', 'lastKernel');
  code.cmp(rowPanels, 1);
  code.csel(scratch, other, scratch, 'equal');
  code.call(scratch);
}

/** Copies the existing columns and rows of an f32 tile to the stack. */
function emitToStack(
  code: ArmAssembler,
  source: ArmRegister,
  stride: ArmRegister,
  place: number,
): void {
  code.mov(copied.source, source);
  code.mov(copied.sourceStride, stride);
  code.add(copied.target, stack, place);
  code.mov(copied.targetStride, 4 * armTile.columns);
  emitTileCopy(code, 4);
}

function emitTileCopy(code: ArmAssembler, elementBytes: 2 | 4): void {
  code.move('ldr x', copied.rows, stack, rowsPlace);
  code.move('ldr x', copied.elements, stack, columnsPlace);
  emitCopy(code, elementBytes);
}

/** Adds a field, times a power of 2, to the target. Changes x8. */
function addField(
  code: ArmAssembler,
  target: ArmRegister,
  field: TaskField<'multiply'>,
  shift = 0,
): void {
  loadField(code, scratch, 'multiply', field);
  code.add(target, target, scratch, shift);
}
