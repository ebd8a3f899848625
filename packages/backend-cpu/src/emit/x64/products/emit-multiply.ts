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
const STACK_BYTES = 32;

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

  const [nextRows, lastRows] = [code.label(), code.label()];
  code.place(nextRows);
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
