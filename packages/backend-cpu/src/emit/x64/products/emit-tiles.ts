import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
  mask,
  type Mask,
  type Memory,
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
  type Vector,
  ymm,
  zmm,
} from '../operands.ts';
import { AMX_BLOCK_UNITS, AMX_COLUMNS, amxSumRowBytes } from '../../products/panels.ts';
import { fieldOffset, taskFlags } from '../../products/task-layout.ts';
import type { Label } from '../../label.ts';
import type { ProductKind } from '../../../program/work/product-kinds.ts';
import { operandAddress, taskField } from './task-fields.ts';

/** A tile has 16 rows of 16 units. The routine multiplies one tile of rows by four tiles of columns at once. */
const EDGE = 16;
const rightUnitBytes = 4 * AMX_COLUMNS;

/** Places on the stack for the sizes of tiles, and for addresses and counts. */
const sizes = onStack(0);
const [resultColumn, addendColumn, resultRow, addendRow] = [
  onStack(64),
  onStack(72),
  onStack(80),
  onStack(88),
];
const [leftBlock, rightBlock, unitsToCome, secondPanel] = [
  onStack(96),
  onStack(104),
  onStack(112),
  onStack(120),
];
const STACK_BYTES = 128;

function onStack(byteOffset: number): Memory {
  return at(rsp, byteOffset);
}

/**
 * Writes the routine that multiplies all panels of 16 rows by all panels of columns, two of them at a time, on
 * processors that multiply tiles (AMX). A block of k of both panels stays in the nearest cache while rows pass by, and
 * sums wait in the second-level cache for the next block. For each 16 units of k, the products of the first elements of
 * pairs and those of the second elements are summed separately, in order. Then both sums are added, and their result is
 * added to the sum.
 */
export function emitTiles(code: Assembler, kind: Exclude<ProductKind, 'f32 to f32'>): Label {
  const start = code.entry();
  code.sub(rsp, STACK_BYTES);
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

  const [nextColumns, nextBlock, nextRows] = [code.label(), code.label(), code.label()];
  const [unfinished, finished] = [code.label(), code.label()];
  code.place(nextColumns);
  emitMasks(code);
  // If only one panel is left, it is multiplied twice, and nothing of the second result is stored.
  const two = code.label();
  code.mov(rax, taskField('multiply', 'rightPanelBytes'));
  code.cmp(r13, 1);
  code.jumpIf('greater', two);
  code.xor(rax, rax);
  code.place(two);
  code.store(secondPanel, rax);
  code.store(rightBlock, rbx);
  code.mov(rax, taskField('multiply', 'leftOperand'));
  code.mov(rax, indexed(rbp, rax));
  code.add(rax, taskField('multiply', 'leftOffset'));
  code.store(leftBlock, rax);
  code.mov(rax, taskField('multiply', 'units'));
  code.store(unitsToCome, rax);

  code.place(nextBlock);
  code.mov(r12, leftBlock);
  code.mov(r14, taskField('multiply', 'rowPanels'));
  code.mov(rdi, operandAddress('packed'));
  code.add(rdi, taskField('multiply', 'sumsOffset'));
  code.mov(rax, resultColumn);
  code.store(resultRow, rax);
  code.mov(rax, addendColumn);
  code.store(addendRow, rax);
  code.place(nextRows);
  emitSums(code);
  code.mov(rax, unitsToCome);
  code.cmp(rax, AMX_BLOCK_UNITS);
  code.jumpIf('greater', unfinished);
  emitRows(code, kind);
  code.place(unfinished);
  code.add(rdi, taskField('multiply', 'sumsStepBytes'));
  code.add(r12, taskField('multiply', 'leftPanelBytes'));
  code.sub(r14, 1);
  code.jumpIf('notEqual', nextRows);

  code.mov(rax, unitsToCome);
  code.sub(rax, AMX_BLOCK_UNITS);
  code.cmp(rax, 1);
  code.jumpIf('less', finished);
  code.store(unitsToCome, rax);
  code.mov(rax, taskField('multiply', 'leftStepBytes'));
  code.shl(rax, Math.log2(AMX_BLOCK_UNITS / EDGE));
  code.add(rax, leftBlock);
  code.store(leftBlock, rax);
  code.mov(rax, rightBlock);
  code.add(rax, AMX_BLOCK_UNITS * rightUnitBytes);
  code.store(rightBlock, rax);
  code.jump(nextBlock);

  code.place(finished);
  emitStep(code, resultColumn, 2 * AMX_COLUMNS * (kind === 'bf16 to bf16' ? 2 : 4));
  for (let panel = 0; panel < 2; panel++) {
    code.add(rbx, taskField('multiply', 'rightPanelBytes'));
  }
  code.mov(rax, taskField('multiply', 'addendPanelBytes'));
  code.shl(rax, 1);
  code.add(rax, addendColumn);
  code.store(addendColumn, rax);
  code.sub(r13, 2);
  code.cmp(r13, 1);
  code.jumpIf('notLess', nextColumns);
  code.tilerelease();
  code.add(rsp, STACK_BYTES);
  code.ret();
  return start;
}

function emitStep(code: Assembler, place: Memory, bytes: number): void {
  code.mov(rax, place);
  code.add(rax, bytes);
  code.store(place, rax);
}

/**
 * Sets the masks of the columns that exist: k1 and k2 for the halves of the first panel, k3 and k4 for those of the
 * second.
 */
function emitMasks(code: Assembler): void {
  const [one, two, known] = [code.label(), code.label(), code.label()];
  code.mov(rax, -1);
  code.mov(rcx, taskField('multiply', 'lastColumns'));
  code.bzhi(rdx, rax, rcx);
  code.cmp(r13, 2);
  code.jumpIf('less', one);
  code.jumpIf('equal', two);
  code.kmovd(mask(1), rax);
  code.kmovd(mask(3), rax);
  code.jump(known);
  code.place(two);
  code.kmovd(mask(1), rax);
  code.kmovd(mask(3), rdx);
  code.jump(known);
  code.place(one);
  code.kmovd(mask(1), rdx);
  code.xor(rdx, rdx);
  code.kmovd(mask(3), rdx);
  code.place(known);
  code.kshiftrd(mask(2), mask(1), EDGE);
  code.kshiftrd(mask(4), mask(3), EDGE);
}

/** Loads the sizes of tiles. All tiles have 16 rows of 64 bytes. */
function emitSizes(code: Assembler): void {
  code.ternary('vpxord', zmm(0), zmm(0), zmm(0));
  code.vstore('vmovups', sizes, zmm(0));
  const words: readonly (readonly [byteOffset: number, value: number])[] = [
    [0, 1],
    ...[16, 20, 24, 28].map((byteOffset) => [byteOffset, 0x0040_0040] as const),
    ...[48, 52].map((byteOffset) => [byteOffset, 0x1010_1010] as const),
  ];
  for (const [byteOffset, value] of words) {
    code.mov(rax, value);
    code.store32(onStack(byteOffset), rax);
  }
  code.ldtilecfg(sizes);
}

/** Adds a block of k to the 16 x 64 sums at rdi. It multiplies the rows at r12 by two panels of columns. */
function emitSums(code: Assembler): void {
  const [loop, first, begun, whole] = [code.label(), code.label(), code.label(), code.label()];
  const eachSum = (visit: (sum: number, place: Memory) => void): void => {
    for (let sum = 0; sum < 4; sum++) visit(sum, indexed(rdi, r11, 1, 64 * sum));
  };
  // rcx: how many units of k are left, and later the number of steps of 16 units.
  code.mov(rcx, unitsToCome);
  code.mov(r11, amxSumRowBytes);
  code.cmp(rcx, taskField('multiply', 'units'));
  code.jumpIf('equal', first);
  eachSum((sum, place) => code.tileloadd(tmm(sum), place));
  code.jump(begun);
  code.place(first);
  eachSum((sum) => code.tilezero(tmm(sum)));
  code.place(begun);
  code.cmp(rcx, AMX_BLOCK_UNITS);
  code.jumpIf('less', whole);
  code.mov(rcx, AMX_BLOCK_UNITS);
  code.place(whole);
  code.shr(rcx, Math.log2(EDGE));
  // rsi: the rows. rdx and r10: the two panels of columns.
  code.mov(rsi, r12);
  code.mov(rdx, rightBlock);
  code.mov(r10, rdx);
  code.add(r10, secondPanel);
  code.mov(rax, taskField('multiply', 'leftStrideBytes'));
  code.mov(r9, taskField('multiply', 'leftStepBytes'));
  code.mov(r8, rightUnitBytes);
  const row = tmm(4);
  code.entry(loop);
  code.tileloadd(row, indexed(rsi, rax));
  for (let column = 0; column < 4; column++) {
    const tile = tmm(5 + (column % 3));
    code.tileloadd(tile, indexed(column < 2 ? rdx : r10, r8, 1, 64 * (column % 2)));
    code.tdpbf16ps(tmm(column), row, tile);
  }
  code.add(rsi, r9);
  code.add(rdx, EDGE * rightUnitBytes);
  code.add(r10, EDGE * rightUnitBytes);
  code.sub(rcx, 1);
  code.jumpIf('notEqual', loop);
  eachSum((sum, place) => code.tilestored(place, tmm(sum)));
}

/** A panel of columns, with the masks of its halves. */
interface Panel {
  readonly low: Mask;
  readonly high: Mask;
  readonly index: 0 | 1;
}

const panels: readonly Panel[] = [
  { low: mask(1), high: mask(2), index: 0 },
  { low: mask(3), high: mask(4), index: 1 },
];
const sums = [zmm(0), zmm(1)] as const;

type Flag = keyof typeof taskFlags;

/**
 * The flags that most products have. Rows of such products are finished without testing flags, because the tests take
 * as long as the work that the flags ask for.
 */
const usual: readonly (readonly Flag[])[] = [
  [],
  ['addsAddend'],
  ['scales'],
  ['scales', 'addsAddend'],
  ['rounds'],
];

/** Finishes the rows that exist, one after the other. rdi: their sums. */
function emitRows(code: Assembler, kind: ProductKind): void {
  const [whole, done] = [code.label(), code.label()];
  code.mov(rcx, EDGE);
  code.cmp(r14, 1);
  code.jumpIf('greater', whole);
  code.mov(rcx, taskField('multiply', 'lastRows'));
  code.place(whole);
  code.mov(rsi, rdi);
  code.mov(rdx, resultRow);
  code.mov(r9, addendRow);
  code.mov(r8, taskField('multiply', 'resultStrideBytes'));
  code.mov(r10, taskField('multiply', 'addendStrideBytes'));
  code.mov(r11, taskField('multiply', 'flags'));
  for (const flags of usual) {
    const others = code.label();
    code.cmp(r11, bitsOf(flags));
    code.jumpIf('notEqual', others);
    emitRowLoop(code, kind, (flag, emit) => {
      if (flags.includes(flag)) emit();
    });
    code.jump(done);
    code.place(others);
  }
  emitRowLoop(code, kind, (flag, emit) => whenTask(code, flag, emit));
  code.place(done);
  code.store(resultRow, rdx);
  code.store(addendRow, r9);
}

function bitsOf(flags: readonly Flag[]): number {
  return flags.reduce((bits, flag) => bits | taskFlags[flag], 0);
}

/** Writes code that runs only for tasks with a flag. */
type When = (flag: Flag, emit: () => void) => void;

function emitRowLoop(code: Assembler, kind: ProductKind, when: When): void {
  const next = code.label();
  code.entry(next);
  for (const panel of panels) emitRow(code, kind, panel, when);
  code.add(rsi, amxSumRowBytes);
  code.add(rdx, r8);
  code.add(r9, r10);
  code.sub(rcx, 1);
  code.jumpIf('notEqual', next);
}

function emitRow(code: Assembler, kind: ProductKind, panel: Panel, when: When): void {
  eachHalf(panel, (sum, offset) => code.binary('vmovups', sum, at(rsi, offset)));
  emitEpilogue(code, kind, panel, when);
  if (kind === 'bf16 to bf16') {
    // All 32 values are in one vector, and the first mask has a bit for each of them.
    code.ternary('vcvtne2ps2bf16', zmm(2), zmm(1), zmm(0));
    code.vstore('vmovdqu16', at(rdx, 2 * AMX_COLUMNS * panel.index), zmm(2), { mask: panel.low });
  } else {
    eachHalf(panel, (sum, offset, there) =>
      code.vstore('vmovups', at(rdx, offset), sum, { mask: there }),
    );
  }
}

function emitEpilogue(code: Assembler, kind: ProductKind, panel: Panel, when: When): void {
  when('addsToResult', () => {
    if (kind === 'bf16 to bf16') return;
    eachHalf(panel, (sum, offset, there) => {
      code.binary('vmovups', zmm(2), at(rdx, offset), { mask: there, zero: true });
      code.ternary('vaddps', sum, zmm(2), sum);
    });
  });
  when('scales', () => {
    const scale = at(r15, fieldOffset('multiply', 'scale'));
    for (const sum of sums) code.ternary('vmulps', sum, sum, scale, { broadcast: true });
  });
  when('addsAddend', () => {
    eachHalf(panel, (sum, offset, there) => {
      code.binary('vmovups', zmm(2), at(r9, offset), { mask: there, zero: true });
      code.ternary('vaddps', sum, sum, zmm(2));
    });
  });
  when('rounds', () => {
    if (kind === 'bf16 to bf16') return;
    for (const sum of sums) {
      code.binary('vcvtneps2bf16', ymm(2), sum);
      code.binary('vpmovzxwd', sum, ymm(2));
      code.shift('vpslld', sum, sum, 16);
    }
  });
}

/**
 * Visits the sums of 16 columns each, with their byte offset in a row of f32 and the mask of the columns that exist.
 */
function eachHalf(
  { low, high, index }: Panel,
  visit: (sum: Vector, byteOffset: number, there: Mask) => void,
): void {
  const byteOffset = 4 * AMX_COLUMNS * index;
  visit(sums[0], byteOffset, low);
  visit(sums[1], byteOffset + 64, high);
}

/** Writes code that runs if the flags in r11 include this one. */
function whenTask(code: Assembler, flag: Flag, emit: () => void): void {
  const skipped = code.label();
  code.mov(rax, r11);
  code.and(rax, taskFlags[flag]);
  code.jumpIf('equal', skipped);
  emit();
  code.place(skipped);
}
