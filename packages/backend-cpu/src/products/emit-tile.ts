import type { Assembler } from '../machine-code/assembler.ts';
import type { Label } from '../machine-code/code.ts';
import {
  at,
  indexed,
  mask,
  type Memory,
  r10,
  r11,
  r12,
  r15,
  r8,
  r9,
  rax,
  rcx,
  rdi,
  rdx,
  type Register,
  rsi,
  type Vector,
  ymm,
  zmm,
} from '../machine-code/operands.ts';
import { type ProductKind, tileColumns, tileRows } from './product-types.ts';
import { fieldOffset, taskField, taskFlags } from './task-layout.ts';

/** Where the kernel reads rows: in a packed panel, or in the operand, where a row's units lie together. */
export type RowSource = 'packed' | 'operand';

/** Bytes of one unit of k in a panel of columns. */
const rightUnitBytes = 4 * tileColumns;
/** Units of k in one turn of the loop. */
const unroll = 4;

/** The two vectors of a row. Row 0 has zmm0 and zmm1, and so on up to zmm27. */
const sums = (row: number): readonly [Vector, Vector] => [zmm(2 * row), zmm(2 * row + 1)];
const columns = [zmm(28), zmm(29)] as const;
const masks = [mask(1), mask(2)] as const;

/**
 * The kernel that multiplies a panel of `rows` rows with one of 32 columns, for as many units of k as rcx says. Every
 * sum is made in the order of k: f32 by one fused multiply-add for each k, bf16 by `vdpbf16ps`, which adds two products.
 *
 * rsi and rdx: the panels, or for rsi the first row of the operand. rdi: the result, and r8: bytes between its rows. r9: what
 * is added, and r10: bytes between its rows. r15: the task. k1 and k2: which of the columns there are. Changes rax and rcx, and all of these addresses.
 */
export function emitTile(
  code: Assembler,
  kind: ProductKind,
  source: RowSource,
  rows: number,
): Label {
  const start = code.entry();
  const each = (visit: (sum: Vector, half: 0 | 1, row: number) => void): void => {
    for (let row = 0; row < rows; row++) {
      const [low, high] = sums(row);
      visit(low, 0, row);
      visit(high, 1, row);
    }
  };
  emitStart(code, kind, each);
  if (source === 'packed') emitLoop(code, kind, rows, packedRows);
  else emitLoopOverOperand(code, kind, rows);
  emitScale(code, each);
  emitAddend(code, rows);
  if (kind === 'bf16 to f32') emitRounding(code, each);
  emitStores(code, kind, rows);
  code.ret();
  return start;
}

type EachSum = (visit: (sum: Vector, half: 0 | 1, row: number) => void) => void;

/** Sums begin with 0, or with what the result has. */
function emitStart(code: Assembler, kind: ProductKind, each: EachSum): void {
  const [begun, fromResult] = [code.label(), code.label()];
  if (kind !== 'bf16 to bf16') skipUnless(code, 'addsToResult', fromResult, true);
  each((sum) => code.ternary('vpxord', sum, sum, sum));
  if (kind !== 'bf16 to bf16') {
    code.jump(begun);
    code.place(fromResult);
    code.mov(rax, rdi);
    each((sum, half) => {
      const options = { mask: masks[half], zero: true };
      code.binary('vmovups', sum, at(rax, 64 * half), options);
      if (half === 1) code.add(rax, r8);
    });
  }
  code.place(begun);
}

/** Where the kernel finds rows. */
interface Rows {
  /** From one unit of k to the next. */
  readonly unitBytes: number;
  /** Registers that go from unit to unit. */
  readonly bases: readonly Register[];
  place(row: number): Memory;
}

const packedRows: Rows = {
  unitBytes: 4 * tileRows,
  bases: [rsi],
  place: (row) => at(rsi, 4 * row),
};

/** Every third row has its address in a register; rax has the distance from row to row. */
const operandBases = [rsi, r9, r10, r11, r12] as const;
const rowsOfOperand: Rows = {
  unitBytes: 4,
  bases: operandBases,
  place: (row) => {
    const base = operandBases[Math.floor(row / 3)] ?? rsi;
    const behind = row % 3;
    return behind === 0 ? at(base) : indexed(base, rax, behind === 1 ? 1 : 2);
  },
};

function emitLoopOverOperand(code: Assembler, kind: ProductKind, rows: number): void {
  const [, ...others] = operandBases;
  for (const register of others) code.push(register);
  code.mov(rax, taskField('multiply', 'leftStrideBytes'));
  let before: Register = rsi;
  for (const base of others) {
    code.lea(base, indexed(before, rax, 2));
    code.add(base, rax);
    before = base;
  }
  emitLoop(code, kind, rows, rowsOfOperand);
  for (const register of others.toReversed()) code.pop(register);
}

function emitLoop(code: Assembler, kind: ProductKind, rows: number, source: Rows): void {
  const advance = (units: number): void => {
    for (const base of source.bases) code.add(base, units * source.unitBytes);
    code.add(rdx, units * rightUnitBytes);
  };
  const [loop, rest, single, done] = [code.label(), code.label(), code.label(), code.label()];
  code.sub(rcx, unroll);
  code.jumpIf('less', rest);
  code.entry(loop);
  for (let unit = 0; unit < unroll; unit++) emitUnit(code, kind, rows, source, unit);
  advance(unroll);
  code.sub(rcx, unroll);
  code.jumpIf('notLess', loop);
  code.place(rest);
  code.add(rcx, unroll);
  code.jumpIf('equal', done);
  code.place(single);
  emitUnit(code, kind, rows, source, 0);
  advance(1);
  code.sub(rcx, 1);
  code.jumpIf('notEqual', single);
  code.place(done);
}

function emitUnit(
  code: Assembler,
  kind: ProductKind,
  rows: number,
  source: Rows,
  unit: number,
): void {
  const isFloat = kind === 'f32 to f32';
  const [low, high] = columns;
  code.binary('vmovups', low, at(rdx, unit * rightUnitBytes));
  code.binary('vmovups', high, at(rdx, unit * rightUnitBytes + 64));
  for (let row = 0; row < rows; row++) {
    // Two registers by turns: a load need not wait for the row before.
    const element = zmm(30 + (row % 2));
    const place = source.place(row);
    const displacement = place.displacement + unit * source.unitBytes;
    code.binary(isFloat ? 'vbroadcastss' : 'vpbroadcastd', element, { ...place, displacement });
    const multiplyAdd = isFloat ? 'vfmadd231ps' : 'vdpbf16ps';
    const [lowSum, highSum] = sums(row);
    code.ternary(multiplyAdd, lowSum, element, low);
    code.ternary(multiplyAdd, highSum, element, high);
  }
}

function emitScale(code: Assembler, each: EachSum): void {
  const unscaled = code.label();
  skipUnless(code, 'scales', unscaled);
  const [scale] = columns;
  code.binary('vbroadcastss', scale, at(r15, fieldOffset('multiply', 'scale')));
  each((sum) => code.ternary('vmulps', sum, sum, scale));
  code.place(unscaled);
}

function emitAddend(code: Assembler, rows: number): void {
  const none = code.label();
  skipUnless(code, 'addsAddend', none);
  for (let row = 0; row < rows; row++) {
    sums(row).forEach((sum, half) => {
      const [addend] = columns;
      code.binary('vmovups', addend, at(r9, 64 * half), {
        mask: masks[half] ?? masks[0],
        zero: true,
      });
      code.ternary('vaddps', sum, sum, addend);
    });
    code.add(r9, r10);
  }
  code.place(none);
}

/** f32 values of what bf16 has of the sums. */
function emitRounding(code: Assembler, each: EachSum): void {
  const none = code.label();
  skipUnless(code, 'rounds', none);
  each((sum) => {
    const narrow = ymm(28);
    code.binary('vcvtneps2bf16', narrow, sum);
    code.binary('vpmovzxwd', sum, narrow);
    code.shift('vpslld', sum, sum, 16);
  });
  code.place(none);
}

function emitStores(code: Assembler, kind: ProductKind, rows: number): void {
  for (let row = 0; row < rows; row++) {
    sums(row).forEach((sum, half) => {
      const options = { mask: masks[half] ?? masks[0] };
      if (kind === 'bf16 to bf16') {
        const narrow = ymm(28);
        code.binary('vcvtneps2bf16', narrow, sum);
        code.vstore('vmovdqu16', at(rdi, 32 * half), narrow, options);
      } else code.vstore('vmovups', at(rdi, 64 * half), sum, options);
    });
    code.add(rdi, r8);
  }
}

/** Goes on at `target` unless the task has the flag; the other way round with `inverted`. */
function skipUnless(
  code: Assembler,
  flag: keyof typeof taskFlags,
  target: Label,
  inverted = false,
): void {
  code.mov(rax, at(r15, fieldOffset('multiply', 'flags')));
  code.and(rax, taskFlags[flag]);
  code.jumpIf(inverted ? 'notEqual' : 'equal', target);
}
