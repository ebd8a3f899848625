import type { Assembler } from '../machine-code/assembler.ts';
import type { Label } from '../machine-code/code.ts';
import {
  at,
  indexed,
  mask,
  r10,
  r11,
  r12,
  r13,
  r14,
  r15,
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
  tmm,
  zmm,
} from '../machine-code/operands.ts';
import { type ProductKind, tileColumns } from './product-types.ts';
import { fieldOffset, operandAddress, taskField, taskFlags } from './task-layout.ts';

/** A tile has 16 rows of 16 units; the routine multiplies two of rows with two of columns at once. */
const edge = 16;
const rightUnitBytes = 4 * tileColumns;
const sumRowBytes = 4 * tileColumns;

/** On the stack: 32 x 32 sums, the sizes of tiles, and four addresses and counts. */
const sumsOffset = 0;
const sizesOffset = 2 * edge * sumRowBytes;
const resultColumn = at(rsp, sizesOffset + 64);
const addendColumn = at(rsp, sizesOffset + 72);
const resultRow = at(rsp, sizesOffset + 80);
const addendRow = at(rsp, sizesOffset + 88);
const stackBytes = sizesOffset + 96;

/**
 * The routine that multiplies all panels of 32 rows with all panels of columns where the processor multiplies tiles (AMX).
 * For each 16 units of k, products of first elements of pairs and those of second ones are summed apart, in order; both
 * sums are added, and what they make to the sum.
 */
export function emitTiles(code: Assembler, kind: Exclude<ProductKind, 'f32 to f32'>): Label {
  const start = code.entry();
  const panelBytes = tileColumns * (kind === 'bf16 to bf16' ? 2 : 4);
  code.sub(rsp, stackBytes);
  emitSizes(code);
  code.mov(r13, taskField('multiply', 'columnPanels'));
  code.mov(rbx, operandAddress('packed'));
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
  code.mov(rax, -1);
  code.bzhi(rax, rax, rcx);
  code.kmovd(mask(1), rax);
  code.kshiftrd(mask(2), mask(1), edge);
  code.mov(rax, taskField('multiply', 'leftOperand'));
  code.mov(r12, indexed(rbp, rax));
  code.add(r12, taskField('multiply', 'leftOffset'));
  code.mov(r14, taskField('multiply', 'rowPanels'));
  code.mov(rax, resultColumn);
  code.store(resultRow, rax);
  code.mov(rax, addendColumn);
  code.store(addendRow, rax);

  const nextRows = code.label();
  code.place(nextRows);
  emitSums(code);
  emitRows(code, kind);
  code.add(r12, taskField('multiply', 'leftPanelBytes'));
  code.sub(r14, 1);
  code.jumpIf('notEqual', nextRows);

  code.add(rbx, taskField('multiply', 'rightPanelBytes'));
  code.mov(rax, resultColumn);
  code.add(rax, panelBytes);
  code.store(resultColumn, rax);
  code.mov(rax, addendColumn);
  code.add(rax, taskField('multiply', 'addendPanelBytes'));
  code.store(addendColumn, rax);
  code.sub(r13, 1);
  code.jumpIf('notEqual', nextColumns);
  code.tilerelease();
  code.add(rsp, stackBytes);
  code.ret();
  return start;
}

/** All tiles have 16 rows of 64 bytes. */
function emitSizes(code: Assembler): void {
  code.ternary('vpxord', zmm(0), zmm(0), zmm(0));
  code.vstore('vmovups', at(rsp, sizesOffset), zmm(0));
  const words: readonly (readonly [byteOffset: number, value: number])[] = [
    [0, 1],
    ...[16, 20, 24, 28].map((byteOffset) => [byteOffset, 0x0040_0040] as const),
    ...[48, 52].map((byteOffset) => [byteOffset, 0x1010_1010] as const),
  ];
  for (const [byteOffset, value] of words) {
    code.mov(rax, value);
    code.store32(at(rsp, sizesOffset + byteOffset), rax);
  }
  code.ldtilecfg(at(rsp, sizesOffset));
}

/** The 32 x 32 sums of the panels at r12 and rbx, on the stack. */
function emitSums(code: Assembler): void {
  const loop = code.label();
  code.mov(rcx, taskField('multiply', 'units'));
  code.add(rcx, edge - 1);
  code.shr(rcx, 4);
  // rsi and r10: the tiles of the upper 16 rows, and of the lower ones.
  code.mov(rsi, r12);
  code.mov(r10, taskField('multiply', 'leftLowerBytes'));
  code.add(r10, r12);
  code.mov(rdx, rbx);
  code.mov(rax, taskField('multiply', 'leftStrideBytes'));
  code.mov(r9, taskField('multiply', 'leftStepBytes'));
  code.mov(r8, rightUnitBytes);
  for (let sum = 0; sum < 4; sum++) code.tilezero(tmm(sum));
  code.entry(loop);
  code.tileloadd(tmm(6), indexed(rdx, r8));
  code.tileloadd(tmm(4), indexed(rsi, rax));
  code.tileloadd(tmm(7), indexed(rdx, r8, 1, 64));
  code.tileloadd(tmm(5), indexed(r10, rax));
  code.tdpbf16ps(tmm(0), tmm(4), tmm(6));
  code.tdpbf16ps(tmm(1), tmm(4), tmm(7));
  code.tdpbf16ps(tmm(2), tmm(5), tmm(6));
  code.tdpbf16ps(tmm(3), tmm(5), tmm(7));
  code.add(rsi, r9);
  code.add(r10, r9);
  code.add(rdx, edge * rightUnitBytes);
  code.sub(rcx, 1);
  code.jumpIf('notEqual', loop);
  for (let sum = 0; sum < 4; sum++) {
    const offset = (sum >> 1) * edge * sumRowBytes + (sum & 1) * 64;
    code.tilestored(indexed(rsp, r8, 1, sumsOffset + offset), tmm(sum));
  }
}

const sums = [zmm(0), zmm(1)] as const;
const onlyThere = [{ mask: mask(1) }, { mask: mask(2) }] as const;

/** Finishes the rows that there are, one after the other. */
function emitRows(code: Assembler, kind: ProductKind): void {
  const [whole, plain, next, done] = [code.label(), code.label(), code.label(), code.label()];
  code.mov(rcx, 2 * edge);
  code.cmp(r14, 1);
  code.jumpIf('greater', whole);
  code.mov(rcx, taskField('multiply', 'lastRows'));
  code.place(whole);
  code.lea(rsi, at(rsp, sumsOffset));
  code.mov(rdi, resultRow);
  code.mov(r9, addendRow);
  code.mov(r8, taskField('multiply', 'resultStrideBytes'));
  code.mov(r10, taskField('multiply', 'addendStrideBytes'));
  code.mov(r11, taskField('multiply', 'flags'));
  code.cmp(r11, 0);
  code.jumpIf('equal', plain);
  code.place(next);
  emitRow(code, kind, () => emitEpilogue(code, kind));
  code.add(r9, r10);
  code.sub(rcx, 1);
  code.jumpIf('notEqual', next);
  code.jump(done);
  code.entry(plain);
  emitRow(code, kind, () => {});
  code.sub(rcx, 1);
  code.jumpIf('notEqual', plain);
  code.place(done);
  code.store(resultRow, rdi);
  code.store(addendRow, r9);
}

function emitRow(code: Assembler, kind: ProductKind, emitBetween: () => void): void {
  sums.forEach((sum, half) => code.binary('vmovups', sum, at(rsi, 64 * half)));
  emitBetween();
  if (kind === 'bf16 to bf16') {
    // All 32 values in one vector, of which k1 says all that there are.
    code.ternary('vcvtne2ps2bf16', zmm(2), zmm(1), zmm(0));
    code.vstore('vmovdqu16', at(rdi), zmm(2), onlyThere[0]);
  } else {
    sums.forEach((sum, half) => code.vstore('vmovups', at(rdi, 64 * half), sum, onlyThere[half]));
  }
  code.add(rsi, sumRowBytes);
  code.add(rdi, r8);
}

function emitEpilogue(code: Assembler, kind: ProductKind): void {
  whenTask(code, 'addsToResult', () => {
    if (kind === 'bf16 to bf16') return;
    sums.forEach((sum, half) => {
      code.binary('vmovups', zmm(2), at(rdi, 64 * half), { ...onlyThere[half], zero: true });
      code.ternary('vaddps', sum, zmm(2), sum);
    });
  });
  whenTask(code, 'scales', () => {
    const scale = at(r15, fieldOffset('multiply', 'scale'));
    for (const sum of sums) code.ternary('vmulps', sum, sum, scale, { broadcast: true });
  });
  whenTask(code, 'addsAddend', () => {
    sums.forEach((sum, half) => {
      code.binary('vmovups', zmm(2), at(r9, 64 * half), { ...onlyThere[half], zero: true });
      code.ternary('vaddps', sum, sum, zmm(2));
    });
  });
}

/** What is done where the flags in r11 have this one. */
function whenTask(code: Assembler, flag: keyof typeof taskFlags, emit: () => void): void {
  const skipped = code.label();
  code.mov(rdx, r11);
  code.and(rdx, taskFlags[flag]);
  code.jumpIf('equal', skipped);
  emit();
  code.place(skipped);
}
