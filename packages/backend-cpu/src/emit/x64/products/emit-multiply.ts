import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
  r10,
  r11,
  r12,
  r13,
  r14,
  r8,
  r9,
  rax,
  rbp,
  rbx,
  rcx,
  rdi,
  rdx,
  rsi,
  rsp,
} from '../operands.ts';
import type { Vectors } from './vectors/vectors.ts';
import type { Label } from '../../label.ts';
import type { ProductKind } from '../../../program/work/product-kinds.ts';
import { operandAddress, taskField } from './task-fields.ts';

/** Places on the stack. */
const resultColumn = at(rsp, 0);
const addendColumn = at(rsp, 8);
const addendRow = at(rsp, 16);
const columnsThere = at(rsp, 24);
/** What the next kernel asks for: its first line, and the bytes from line to line. It finds them above its own address. */
export const aheadLine = 32;
export const aheadStep = 40;
/** What the kernel behind it asks for, where the present panel begins to ask, and how many kernels of it still do. */
const aheadNext = at(rsp, 48);
const aheadPanel = at(rsp, 56);
const aheadLeft = at(rsp, 64);
const STACK_BYTES = 72;

/**
 * Writes the routine that multiplies all panels of rows by all panels of columns. A panel of columns stays in the
 * nearest cache while the panels of rows pass by. The task has two kernels: one for whole panels of rows, and one for
 * the last panel.
 */
export function emitMultiply(code: Assembler, vectors: Vectors, kind: ProductKind): Label {
  const start = code.entry();
  const { rows: tileRows, columns: tileColumns } = vectors.tile;
  const bytesOfPanel = tileColumns * (kind === 'bf16 to bf16' ? 2 : 4);
  code.sub(rsp, STACK_BYTES);
  code.mov(r13, taskField('multiply', 'columnPanels'));
  code.mov(rax, taskField('multiply', 'rightOperand'));
  code.mov(rbx, indexed(rbp, rax));
  code.add(rbx, taskField('multiply', 'rightOffset'));
  code.mov(rax, operandAddress('result'));
  code.add(rax, taskField('multiply', 'resultOffset'));
  code.store(resultColumn, rax);
  code.mov(rax, operandAddress('addend'));
  code.add(rax, taskField('multiply', 'addendOffset'));
  code.store(addendColumn, rax);
  const readsAhead = kind === 'f32 to f32';
  if (readsAhead) {
    code.mov(rax, operandAddress('right'));
    code.add(rax, taskField('multiply', 'aheadOffset'));
    code.store(aheadPanel, rax);
  }

  const [nextColumns, wholeColumns] = [code.label(), code.label()];
  code.place(nextColumns);
  code.mov(rcx, tileColumns);
  code.cmp(r13, 1);
  code.jumpIf('greater', wholeColumns);
  code.mov(rcx, taskField('multiply', 'lastColumns'));
  code.place(wholeColumns);
  vectors.beginColumns(rcx, columnsThere);
  code.mov(rax, taskField('multiply', 'leftOperand'));
  code.mov(r12, indexed(rbp, rax));
  code.add(r12, taskField('multiply', 'leftOffset'));
  code.mov(r14, taskField('multiply', 'rowPanels'));
  code.mov(r11, resultColumn);
  code.mov(rax, addendColumn);
  code.store(addendRow, rax);
  if (readsAhead) emitAheadOfPanel(code);

  const [nextRows, lastRows] = [code.label(), code.label()];
  code.place(nextRows);
  if (readsAhead) emitAheadOfKernel(code);
  code.mov(rsi, r12);
  code.mov(rdx, rbx);
  code.mov(rcx, taskField('multiply', 'units'));
  code.mov(rdi, r11);
  code.mov(r8, taskField('multiply', 'resultStrideBytes'));
  code.mov(r9, addendRow);
  code.mov(r10, taskField('multiply', 'addendStrideBytes'));
  vectors.passColumns(columnsThere);
  code.cmp(r14, 1);
  code.jumpIf('equal', lastRows);
  code.mov(rax, taskField('multiply', 'kernel'));
  code.call(rax);
  code.add(r12, taskField('multiply', 'leftPanelBytes'));
  // The kernel has moved rdi through the rows of the result. It only moves r9 through the addend if there is one.
  code.mov(r11, rdi);
  code.mov(rax, taskField('multiply', 'addendStrideBytes'));
  code.mov(rcx, tileRows);
  code.imul(rax, rcx);
  code.add(rax, addendRow);
  code.store(addendRow, rax);
  code.sub(r14, 1);
  code.jump(nextRows);
  code.place(lastRows);
  code.mov(rax, taskField('multiply', 'lastKernel'));
  code.call(rax);

  code.add(rbx, taskField('multiply', 'rightPanelBytes'));
  code.mov(rax, resultColumn);
  code.add(rax, bytesOfPanel);
  code.store(resultColumn, rax);
  code.mov(rax, addendColumn);
  code.add(rax, taskField('multiply', 'addendPanelBytes'));
  code.store(addendColumn, rax);
  code.sub(r13, 1);
  code.jumpIf('notEqual', nextColumns);
  code.add(rsp, STACK_BYTES);
  code.ret();
  return start;
}

/** Begins with what the kernels of a panel of columns ask for. */
function emitAheadOfPanel(code: Assembler): void {
  code.mov(rax, aheadPanel);
  code.store(aheadNext, rax);
  code.add(rax, taskField('multiply', 'aheadPanelBytes'));
  code.store(aheadPanel, rax);
  code.mov(rax, taskField('multiply', 'aheadCalls'));
  code.store(aheadLeft, rax);
}

/** Says what the next kernel asks for: lines of what is packed next, or again and again the panel that it reads. */
function emitAheadOfKernel(code: Assembler): void {
  const [none, done] = [code.label(), code.label()];
  code.mov(rax, aheadLeft);
  code.cmp(rax, 1);
  code.jumpIf('less', none);
  code.sub(rax, 1);
  code.store(aheadLeft, rax);
  code.mov(rax, aheadNext);
  code.store(at(rsp, aheadLine), rax);
  code.add(rax, taskField('multiply', 'aheadCallBytes'));
  code.store(aheadNext, rax);
  code.mov(rax, taskField('multiply', 'aheadStrideBytes'));
  code.store(at(rsp, aheadStep), rax);
  code.jump(done);
  code.place(none);
  code.store(at(rsp, aheadLine), rbx);
  code.xor(rax, rax);
  code.store(at(rsp, aheadStep), rax);
  code.place(done);
}
