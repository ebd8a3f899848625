import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { elementBlocks, type Accumulator } from './element-blocks.ts';

const BLOCK_ELEMENTS = 4096;

/**
 * Reduces the sources in the order given and writes the result to every destination, which may be
 * one of the sources. All have the same length. Each step is rounded to the
 * dtype, but f16 and bf16 are accumulated in f32 and rounded once.
 */
export function reduceElements(
  sources: readonly Uint8Array[],
  destinations: readonly Uint8Array[],
  dtype: DType,
  op: ReduceOp,
): void {
  const blocks = elementBlocks[dtype];
  const isAligned = (bytes: Uint8Array): boolean => bytes.byteOffset % dtypes[dtype].bytes === 0;
  if (!destinations.every(isAligned)) {
    const result = new Uint8Array(sources[0]?.byteLength ?? 0);
    reduceElements(sources, [result], dtype, op);
    for (const bytes of destinations) bytes.set(result);
    return;
  }
  const from = sources.map((bytes) => blocks.view(isAligned(bytes) ? bytes : bytes.slice()));
  const to = destinations.map((bytes) => blocks.view(bytes));
  const elements = (sources[0]?.byteLength ?? 0) / dtypes[dtype].bytes;
  const length = Math.min(elements, BLOCK_ELEMENTS);
  const total = blocks.create(length);
  const next = blocks.create(length);
  for (let start = 0; start < elements; start += length) {
    const count = Math.min(length, elements - start);
    for (const [index, view] of from.entries()) {
      const into = index === 0 ? total : next;
      view.load(start, count, into);
      if (typeof op === 'object') scale(into, op.premultipliedSum, count);
      if (index > 0) combine(total, next, count, typeof op === 'object' ? 'sum' : op);
    }
    if (op === 'avg') divide(total, sources.length, count);
    for (const view of to) view.store(start, count, total);
  }
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

// One loop for each op, so that the compiled loop has no branch on it.
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

const bigIntSteps: Record<Combine, (a: bigint, b: bigint) => bigint> = {
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
  const step = bigIntSteps[op];
  for (let i = 0; i < count; i++) total[i] = step(total[i]!, next[i]!);
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
