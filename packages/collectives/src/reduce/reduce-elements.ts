import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { elementBlocks, type Accumulator, type ElementView } from './element-blocks.ts';

const BLOCK_ELEMENTS = 4096;

/** The dtype of partial sums until the values of all ranks are added. It is f32 for 16-bit floats. */
export const partialDTypes: Readonly<Record<DType, DType>> = {
  f64: 'f64',
  f32: 'f32',
  f16: 'f32',
  bf16: 'f32',
  i64: 'i64',
  i32: 'i32',
  u8: 'u8',
  bool: 'bool',
};

/** A part of a reduction. It adds the sources, in order, to the result of the folds before it. */
export interface Fold {
  /** The result of the folds before, in the partial dtype. Undefined in the first fold. */
  readonly partial: Uint8Array | undefined;
  readonly sources: readonly Uint8Array[];
  readonly dtype: DType;
  readonly op: ReduceOp;
  /** The number of sources of the whole reduction if this is its last fold. Undefined if more folds follow. */
  readonly total: number | undefined;
}

/**
 * Reduces the sources in the order given and writes the result to every destination, which may be one of the sources.
 * All have the same length. The result of each addition is rounded to the dtype. For f16 and bf16, sums are accumulated
 * in f32 and rounded once.
 */
export function reduceElements(
  sources: readonly Uint8Array[],
  destinations: readonly Uint8Array[],
  dtype: DType,
  op: ReduceOp,
): void {
  foldElements({ partial: undefined, sources, dtype, op, total: sources.length }, destinations);
}

/**
 * Writes the result of a fold to every destination, which may be its partial or one of its sources. The last
 * fold writes it in the dtype, others in the partial dtype. A reduction in several folds has the same bits as
 * reduceElements of all sources in that order.
 */
export function foldElements(fold: Fold, destinations: readonly Uint8Array[]): void {
  const { partial, sources, dtype, op, total: count } = fold;
  const partialDType = partialDTypes[dtype];
  const resultDType = count === undefined ? partialDType : dtype;
  if (!destinations.every((bytes) => isAligned(bytes, resultDType))) {
    const result = new Uint8Array(destinations[0]?.byteLength ?? 0);
    foldElements(fold, [result]);
    for (const bytes of destinations) bytes.set(result);
    return;
  }
  const elements = (destinations[0]?.byteLength ?? 0) / dtypes[resultDType].bytes;
  const before = partial === undefined ? [] : [viewOf(partial, partialDType)];
  const from = [...before, ...sources.map((bytes) => viewOf(bytes, dtype))];
  const to = destinations.map((bytes) => viewOf(bytes, resultDType));
  const length = Math.min(elements, BLOCK_ELEMENTS);
  const total = elementBlocks[partialDType].create(length);
  const next = elementBlocks[partialDType].create(length);
  for (let start = 0; start < elements; start += length) {
    const block = Math.min(length, elements - start);
    for (const [index, view] of from.entries()) {
      const into = index === 0 ? total : next;
      view.load(start, block, into);
      const isSource = index >= before.length;
      if (typeof op === 'object' && isSource) scale(into, op.premultipliedSum, block);
      if (index > 0) combine(total, next, block, typeof op === 'object' ? 'sum' : op);
    }
    if (op === 'avg' && count !== undefined) divide(total, count, block);
    for (const view of to) view.store(start, block, total);
  }
}

function isAligned(bytes: Uint8Array, dtype: DType): boolean {
  return bytes.byteOffset % dtypes[dtype].bytes === 0;
}

function viewOf(bytes: Uint8Array, dtype: DType): ElementView {
  return elementBlocks[dtype].view(isAligned(bytes, dtype) ? bytes : bytes.slice());
}

type Combine = Exclude<ReduceOp, object>;

function combine(total: Accumulator, next: Accumulator, count: number, op: Combine): void {
  if (total instanceof BigInt64Array) {
    if (next instanceof BigInt64Array) combineBigInts(total, next, count, op);
  } else if (!(next instanceof BigInt64Array)) {
    combineNumbers(total, next, count, op);
  }
}

type Numbers = Exclude<Accumulator, BigInt64Array>;

// Each op has a loop of its own, so that the compiled loop does not branch on the op.
function combineNumbers(total: Numbers, next: Numbers, count: number, op: Combine): void {
  switch (op) {
    case 'sum':
    case 'avg':
      for (let i = 0; i < count; i++) total[i] = total[i]! + next[i]!;
      return;
    case 'product':
      if (total instanceof Int32Array) {
        for (let i = 0; i < count; i++) total[i] = Math.imul(total[i]!, next[i]!);
      } else {
        for (let i = 0; i < count; i++) total[i] = total[i]! * next[i]!;
      }
      return;
    case 'min':
      for (let i = 0; i < count; i++) total[i] = Math.min(total[i]!, next[i]!);
      return;
    case 'max':
      for (let i = 0; i < count; i++) total[i] = Math.max(total[i]!, next[i]!);
      return;
    case 'and':
      for (let i = 0; i < count; i++) total[i] = total[i]! & next[i]!;
      return;
    case 'or':
      for (let i = 0; i < count; i++) total[i] = total[i]! | next[i]!;
      return;
    case 'xor':
      for (let i = 0; i < count; i++) total[i] = total[i]! ^ next[i]!;
      return;
    default:
      op satisfies never;
  }
}

const bigIntCombines: Record<Combine, (a: bigint, b: bigint) => bigint> = {
  sum: (a, b) => a + b,
  avg: (a, b) => a + b,
  product: (a, b) => a * b,
  min: (a, b) => (b < a ? b : a),
  max: (a, b) => (b > a ? b : a),
  and: (a, b) => a & b,
  or: (a, b) => a | b,
  xor: (a, b) => a ^ b,
};

function combineBigInts(
  total: BigInt64Array,
  next: BigInt64Array,
  count: number,
  op: Combine,
): void {
  const combineTwo = bigIntCombines[op];
  for (let i = 0; i < count; i++) total[i] = combineTwo(total[i]!, next[i]!);
}

function scale(values: Accumulator, factor: number, count: number): void {
  if (values instanceof BigInt64Array) return;
  const rounded = values instanceof Float32Array ? Math.fround(factor) : factor;
  for (let i = 0; i < count; i++) values[i] = values[i]! * rounded;
}

function divide(values: Accumulator, divisor: number, count: number): void {
  if (values instanceof BigInt64Array) return;
  for (let i = 0; i < count; i++) values[i] = values[i]! / divisor;
}
