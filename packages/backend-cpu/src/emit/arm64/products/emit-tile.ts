import type { ArmAssembler } from '../assembler.ts';
import { type ArmRegister, type ArmVector, v, x } from '../operands.ts';
import { fieldOffset, taskFlags } from '../../products/task-layout.ts';
import { ARM_TERMS, armTile, loadField, task } from './task.ts';
import type { Label } from '../../label.ts';
import type { TileSource } from '../../products/product-code.ts';
import type { ProductKind } from '../../../program/work/product-kinds.ts';

/**
 * The registers with the operands of a kernel, which are the same operands as on other processors. A kernel changes all
 * but the strides.
 */
export const tileOperands: Readonly<
  Record<
    | ('left' | 'right' | 'units' | 'result' | 'resultStride')
    | ('addend' | 'addendStride' | 'leftStride'),
    ArmRegister
  >
> = {
  left: x(0),
  right: x(1),
  units: x(2),
  result: x(3),
  resultStride: x(4),
  addend: x(5),
  addendStride: x(6),
  leftStride: x(7),
};

export interface ArmTileOptions {
  readonly kind: ProductKind;
  readonly source: Exclude<TileSource, 'columns'>;
  readonly rows: number;
}

/** How many steps one turn of the loop makes. */
const UNROLL = 4;
const { left, right, units, result, resultStride, addend, addendStride, leftStride } = tileOperands;
const scratch = x(8);
/** The eight vectors that do not hold sums. */
const free = (index: number): ArmVector => v(24 + index);
/** The registers with the addresses of rows, if the rows are read from the operand and not from a packed panel. */
const rowBases: readonly ArmRegister[] = [left, ...[8, 9, 10, 11, 12, 13, 14].map(x)];
const vectorsOfRow = armTile.columns / 4;

/**
 * Writes the kernel that multiplies a panel of `rows` rows by a panel of all 12 columns. Sums of f32 are computed in
 * the order of k, with one fused multiply-add for each term. Sums of bf16 are computed by `bfmmla`, which adds four
 * products at a time, in its own order and with its own rounding. bf16 rows that are not packed must be eight, with a
 * multiple of 4 terms.
 */
export function emitArmTile(code: ArmAssembler, options: ArmTileOptions): Label {
  const start = code.place();
  const { kind, source, rows } = options;
  const isFloat = kind === 'f32 to f32';
  /**
   * The vector with 4 columns of a row's sums: part `part`. While bf16 sums are computed, a vector has 2 rows and 2
   * columns instead.
   */
  const sum = (row: number, part: number): ArmVector =>
    v(isFloat ? vectorsOfRow * row + part : 2 * vectorsOfRow * (row >> 1) + 2 * part + (row & 1));
  const eachSum = (visit: (sum: ArmVector, row: number, part: number) => void): void => {
    for (let row = 0; row < rows; row++) {
      for (let part = 0; part < vectorsOfRow; part++) visit(sum(row, part), row, part);
    }
  };
  /**
   * Exchanges halves of the sums of each two rows and four columns. Two vectors with a row each become two vectors with
   * two columns of both rows each, or the other way round.
   */
  const exchange = (): void => {
    for (let row = 0; row < rows; row += 2) {
      for (let part = 0; part < vectorsOfRow; part++) {
        const [first, second] = [sum(row, part), sum(row + 1, part)];
        code.ternary('zip1 2d', free(0), first, second);
        code.ternary('zip2 2d', second, first, second);
        code.copy(first, free(0));
      }
    }
  };
  const zeroSums = (): void => {
    const count = vectorsOfRow * (isFloat ? rows : rows + (rows & 1));
    for (let index = 0; index < count; index++) code.zero(v(index));
  };

  if (kind === 'bf16 to bf16') zeroSums();
  else {
    const [fresh, begun] = [code.label(), code.label()];
    skipUnless(code, 'addsToResult', fresh);
    code.mov(scratch, result);
    eachSum((target, _, part) => {
      code.move('ldr q', target, scratch, 16 * part);
      if (part === vectorsOfRow - 1) code.add(scratch, scratch, resultStride);
    });
    if (!isFloat) {
      // An odd last row has no partner, whose sums begin with zeros.
      if (rows % 2 === 1) {
        for (let part = 0; part < vectorsOfRow; part++) code.zero(sum(rows, part));
      }
      exchange();
    }
    code.jump(begun);
    code.place(fresh);
    zeroSums();
    code.place(begun);
  }
  if (!isFloat) code.lsr(units, units, 1);
  if (source === 'operand') emitRowBases(code, rows);
  emitLoop(code, options);
  if (!isFloat) exchange();

  const unscaled = code.label();
  skipUnless(code, 'scales', unscaled);
  code.add(scratch, task, fieldOffset('multiply', 'scale'));
  code.ld1r(free(0), scratch);
  eachSum((target) => code.ternary('fmul', target, target, free(0)));
  code.place(unscaled);

  const unadded = code.label();
  skipUnless(code, 'addsAddend', unadded);
  eachSum((target, _, part) => {
    code.move('ldr q', free(part), addend, 16 * part);
    code.ternary('fadd', target, target, free(part));
    if (part === vectorsOfRow - 1) code.add(addend, addend, addendStride);
  });
  code.place(unadded);

  if (kind === 'bf16 to f32') {
    const unrounded = code.label();
    skipUnless(code, 'rounds', unrounded);
    eachSum((target) => {
      code.binary('bfcvtn', target, target);
      code.binary('shll', target, target);
    });
    code.place(unrounded);
  }
  eachSum((value, _, part) => {
    if (kind === 'bf16 to bf16') {
      code.binary('bfcvtn', value, value);
      code.move('str d', value, result, 8 * part);
    } else code.move('str q', value, result, 16 * part);
    if (part === vectorsOfRow - 1) code.add(result, result, resultStride);
  });
  code.ret();
  return start;
}

function emitRowBases(code: ArmAssembler, rows: number): void {
  for (const [index, base] of rowBases.slice(0, rows).entries()) {
    const before = rowBases[index - 1];
    if (before !== undefined) code.add(base, before, leftStride);
  }
}

function emitLoop(code: ArmAssembler, options: ArmTileOptions): void {
  const terms = options.kind === 'f32 to f32' ? 1 : ARM_TERMS;
  const elementBytes = terms === 1 ? 4 : 2;
  const leftBytes = armTile.rows * terms * elementBytes;
  const rightBytes = armTile.columns * terms * elementBytes;
  const emitSteps = (count: number): void => {
    for (let step = 0; step < count; step++) {
      const emit = terms === 1 ? emitFloats : emitHalves;
      emit(code, options, step * leftBytes, step * rightBytes);
    }
    if (options.source === 'packed') code.add(left, left, count * leftBytes);
    code.add(right, right, count * rightBytes);
  };
  const [rest, done] = [code.label(), code.label()];
  code.subs(units, units, UNROLL);
  code.jumpIf('less', rest);
  const loop = code.place();
  emitSteps(UNROLL);
  code.subs(units, units, UNROLL);
  code.jumpIf('notLess', loop);
  code.place(rest);
  code.add(units, units, UNROLL);
  code.jumpIfZero(units, done);
  const single = code.place();
  emitSteps(1);
  code.subs(units, units, 1);
  code.jumpIf('notEqual', single);
  code.place(done);
}

/** Adds one term to all sums. */
function emitFloats(
  code: ArmAssembler,
  { source, rows }: ArmTileOptions,
  leftOffset: number,
  rightOffset: number,
): void {
  code.movePair('ldp q', free(0), free(1), right, rightOffset);
  code.move('ldr q', free(2), right, rightOffset + 32);
  if (source === 'packed') {
    if (rows > 4) code.movePair('ldp q', free(3), free(4), left, leftOffset);
    else code.move('ldr q', free(3), left, leftOffset);
  }
  for (const [row, base] of rowBases.slice(0, rows).entries()) {
    // The elements use five registers in turn, so that a load need not wait for the row before.
    const element = free(3 + (row % 5));
    if (source === 'operand') code.ld1rAndStep(element, base);
    for (let part = 0; part < vectorsOfRow; part++) {
      const sum = v(vectorsOfRow * row + part);
      if (source === 'operand') code.ternary('fmla', sum, free(part), element);
      else code.fmlaByElement(sum, free(part), free(3 + (row >> 2)), row & 3);
    }
  }
}

/** Adds four terms to all sums, by multiplying pairs of rows by pairs of columns. */
function emitHalves(
  code: ArmAssembler,
  { source, rows }: ArmTileOptions,
  leftOffset: number,
  rightOffset: number,
): void {
  const rowPairs = Math.ceil(rows / 2);
  for (let pair = 0; pair < rowPairs; pair++) {
    if (source === 'packed') code.move('ldr q', free(pair), left, leftOffset + 16 * pair);
    else {
      code.moveAndStep('ldr d', free(pair), rowBases[2 * pair] ?? left, 8);
      code.ld1HighAndStep(free(pair), rowBases[2 * pair + 1] ?? left);
    }
  }
  for (let part = 0; part < vectorsOfRow; part++) {
    const [first, second] = [free(4 + 2 * (part % 2)), free(5 + 2 * (part % 2))];
    code.movePair('ldp q', first, second, right, rightOffset + 32 * part);
    for (let pair = 0; pair < rowPairs; pair++) {
      const sums = 2 * (vectorsOfRow * pair + part);
      code.ternary('bfmmla', v(sums), free(pair), first);
      code.ternary('bfmmla', v(sums + 1), free(pair), second);
    }
  }
}

/** Writes a jump to `target` for tasks without the flag. Changes x8. */
export function skipUnless(code: ArmAssembler, flag: keyof typeof taskFlags, target: Label): void {
  loadField(code, scratch, 'multiply', 'flags');
  code.jumpUnlessBit(scratch, Math.log2(taskFlags[flag]), target);
}
