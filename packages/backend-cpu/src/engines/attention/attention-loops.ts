import { f32x4, FunctionBuilder, type Local, v128 } from '@shardwise/wasm-assembler';
import type { AttentionParams } from '@shardwise/core/spec';
import { type LaneInput, type LaneLoop, laneInput, type LanePass } from '../../lanes/lane-loop.ts';
import { cast } from '../../lanes/cast.ts';
import type { LaneDType } from '../../lanes/loop-spec.ts';
import { expNegative, log } from '../../lanes/math.ts';

type Vector = Local<'v128'>;

/** How a loop stores the weights and the gradients of scores. */
export interface TileDType {
  readonly rounding: AttentionParams['rounding'];
  /** Whether they are stored as bf16, for products of bf16 operands. Otherwise they are stored as f32. */
  readonly isNarrow: boolean;
}

const element = (dtype: LaneDType) => ({ dtype, access: 'element', elementOffset: 0 }) as const;
const ofRow = { dtype: 'f32', access: 'row', elementOffset: 0 } as const;

function rounded(fn: FunctionBuilder, x: Vector, { rounding, isNarrow }: TileDType): Vector {
  if (rounding === 'none') return x;
  const narrow = fn.let(cast({ fn, dtype: rounding, inputDType: 'f32' }, x));
  if (isNarrow) return narrow;
  return fn.let(cast({ fn, dtype: 'f32', inputDType: rounding }, narrow));
}

/** The operands behind the others if each row sees a range of the columns: its first one, its end, and their numbers. */
const boundOperands = [ofRow, ofRow, { dtype: 'f32', access: 'column', elementOffset: 0 }] as const;

/** The scores, with minus infinity outside of the range of the row. `bound` makes the inputs. */
function inRange(fn: FunctionBuilder, scores: Vector, bound: (number: number) => Vector): Vector {
  const [first, end, column] = [bound(0), bound(1), bound(2)];
  const isSeen = v128.and(f32x4.le(first, column), f32x4.lt(column, end));
  return fn.let(v128.bitselect(scores, fn.float(-Infinity), isSeen));
}

/** Which operands a loop has in addition. */
interface WeightsSpec {
  readonly hasLogSums: boolean;
  /** Whether each row sees only a range of the columns. */
  readonly hasBounds: boolean;
}

/**
 * A loop that turns scores into weights, and overwrites the scores. A row whose scores are all minus infinity gets
 * weights of 0.
 * Operands: the scores; the weights, if `tile` is narrow and they are not stored in place of the scores; the logarithm
 * of each row's sum, if `hasLogSums`; the three of bounds, if `hasBounds`.
 */
export function weightsLoop(tile: TileDType, { hasLogSums, hasBounds }: WeightsSpec): LaneLoop {
  const fn = new FunctionBuilder(0);
  const inputs: LaneInput[] = [];
  const input = (from: LaneInput): Vector => fn.let(laneInput(inputs.push(from) - 1));
  const own = [element('f32'), ...(tile.isNarrow ? [element('bf16')] : [])];
  const unbounded = hasLogSums ? [...own, ofRow] : own;
  const stored = input({ kind: 'operand', operand: 0 });
  const largest = input({ kind: 'folded' });
  const sum = input({ kind: 'folded' });
  const bound = (number: number): Vector =>
    input({ kind: 'operand', operand: unbounded.length + number });
  const scores = hasBounds ? inRange(fn, stored, bound) : stored;
  const isBlind = f32x4.eq(largest, fn.float(-Infinity));
  const shift = fn.let(v128.bitselect(fn.float(0), largest, isBlind));
  const power = fn.let(expNegative(fn, f32x4.sub(scores, shift)));
  const isEmpty = f32x4.eq(largest, fn.float(-Infinity));
  const factor = v128.bitselect(fn.float(0), f32x4.div(fn.float(1), sum), isEmpty);
  // The last pass finds the powers where the scores were.
  const weight = fn.let(f32x4.mul(stored, fn.let(factor)));
  const logSum = fn.let(f32x4.add(log(fn, sum), shift));
  const passes: LanePass[] = [
    { stores: [], folds: [{ fold: 'max', term: scores, input: 1 }] },
    { stores: [{ operand: 0, value: power }], folds: [{ fold: 'sum', term: power, input: 2 }] },
    { stores: [{ operand: tile.isNarrow ? 1 : 0, value: rounded(fn, weight, tile) }], folds: [] },
  ];
  const operands = hasBounds ? [...unbounded, ...boundOperands] : unbounded;
  if (!hasLogSums) return { operands, inputs, before: [], passes };
  return {
    operands,
    inputs,
    before: [],
    passes,
    ofRow: [
      {
        operand: own.length,
        value: fn.let(v128.bitselect(fn.float(Infinity), logSum, isEmpty)),
      },
    ],
  };
}

/** A loop that computes only the logarithm of each row's sum. Operands: the scores; the logarithms; those of bounds. */
export function logSumsLoop(hasBounds: boolean): LaneLoop {
  const loop = weightsLoop({ rounding: 'none', isNarrow: false }, { hasLogSums: true, hasBounds });
  return { ...loop, passes: loop.passes.slice(0, 2) };
}

/**
 * A loop that computes the weights and the gradients of the scores, weight * (owed - delta), without the attention's
 * scale.
 * Operands: the scores; the gradients of the weights ("owed"); the logarithms of the rows' sums; the rows' deltas. If
 * `tile` is narrow, the weights and the gradients of the scores follow. Otherwise these results overwrite the first two
 * operands. The three of bounds come last, if `hasBounds`.
 */
export function slopesLoop(tile: TileDType, hasBounds: boolean): LaneLoop {
  const fn = new FunctionBuilder(0);
  const inputs: LaneInput[] = [];
  const operand = (number: number): Vector =>
    fn.let(laneInput(inputs.push({ kind: 'operand', operand: number }) - 1));
  const [stored, owed, logSum, delta] = [operand(0), operand(1), operand(2), operand(3)];
  const unbounded = [
    element('f32'),
    element('f32'),
    ofRow,
    ofRow,
    ...(tile.isNarrow ? [element('bf16'), element('bf16')] : []),
  ];
  const bound = (number: number): Vector => operand(unbounded.length + number);
  const scores = hasBounds ? inRange(fn, stored, bound) : stored;
  const weight = fn.let(expNegative(fn, f32x4.sub(scores, logSum)));
  const slope = fn.let(f32x4.mul(weight, f32x4.sub(owed, delta)));
  const results = tile.isNarrow ? [4, 5] : [0, 1];
  return {
    operands: hasBounds ? [...unbounded, ...boundOperands] : unbounded,
    inputs,
    before: [],
    passes: [
      {
        stores: [weight, slope].map((value, index) => ({
          operand: results[index] ?? 0,
          value: rounded(fn, value, tile),
        })),
        folds: [],
      },
    ],
  };
}

/** A loop that rounds f32 values to bf16. Operands: the f32 values; the bf16 values. */
export function narrowingLoop(): LaneLoop {
  const fn = new FunctionBuilder(0);
  const value = rounded(fn, fn.let(laneInput(0)), { rounding: 'bf16', isNarrow: true });
  return {
    operands: [element('f32'), element('bf16')],
    inputs: [{ kind: 'operand', operand: 0 }],
    before: [],
    passes: [{ stores: [{ operand: 1, value }], folds: [] }],
  };
}

/**
 * A loop that turns keys or values in fewer bits into f32. Operands: those in fewer bits; for bytes, the scale of each row,
 * which what is left after subtracting 128 is multiplied by; the f32 values.
 */
export function loadingLoop(dtype: 'bf16' | 'f16' | 'u8'): LaneLoop {
  const fn = new FunctionBuilder(0);
  const operands = [element(dtype), ...(dtype === 'u8' ? [ofRow] : []), element('f32')];
  const wide = fn.let(cast({ fn, dtype: 'f32', inputDType: dtype }, fn.let(laneInput(0))));
  const value =
    dtype === 'u8'
      ? fn.let(f32x4.mul(fn.let(f32x4.sub(wide, fn.float(128))), fn.let(laneInput(1))))
      : wide;
  return {
    operands,
    inputs: operands.slice(0, -1).map((_, operand) => ({ kind: 'operand', operand })),
    before: [],
    passes: [{ stores: [{ operand: operands.length - 1, value }], folds: [] }],
  };
}
