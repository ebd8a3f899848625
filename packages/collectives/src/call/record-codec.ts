import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import { operations, type CallRecord } from './record.ts';

/** Fields that must be equal on all ranks, then those that may differ. */
const COMPARED = 6;
const FIXED = 9;

const dtypeNames = Object.keys(dtypes).filter((name): name is DType => name in dtypes);
const reduceNames = ['sum', 'avg', 'product', 'min', 'max', 'and', 'or', 'xor'] as const;
const PREMULTIPLIED = reduceNames.length;

/** Length of an encoded record, in f64 numbers. */
export function recordFields(size: number): number {
  return FIXED + 2 * size;
}

/** Fields: operation, dtype, elements, root, reduce, factor | colour, key, channel | splits in, splits out. */
export function encodeRecord(record: CallRecord, size: number, fields: Float64Array): void {
  const { reduce, member, splits } = record;
  fields[0] = operations.indexOf(record.operation);
  fields[1] = record.dtype === undefined ? -1 : dtypeNames.indexOf(record.dtype);
  fields[2] = record.elements;
  fields[3] = record.root ?? -1;
  fields[4] = reduce === undefined ? -1 : reduceCode(reduce);
  fields[5] = typeof reduce === 'object' ? reduce.premultipliedSum : 0;
  fields[6] = member?.color ?? Number.NaN;
  fields[7] = member?.key ?? 0;
  fields[8] = member?.channel ?? 0;
  if (splits !== undefined) {
    fields.set(splits.input, FIXED);
    fields.set(splits.output, FIXED + size);
  }
}

/** Undefined for numbers that no call is encoded to: those of a foreign peer. */
export function decodeRecord(fields: Float64Array, size: number): CallRecord | undefined {
  const [operation = -1, dtype = -1, elements = 0, root = -1, reduce = -1, factor = 0] = fields;
  const [color = Number.NaN, key = 0, channel = -1] = fields.subarray(COMPARED);
  const name = operations[operation];
  if (name === undefined) return undefined;
  return {
    operation: name,
    dtype: dtypeNames[dtype],
    elements,
    root: root < 0 ? undefined : root,
    reduce: decodeReduce(reduce, factor),
    splits:
      name === 'allToAll'
        ? { input: splitsFrom(fields, FIXED, size), output: splitsFrom(fields, FIXED + size, size) }
        : undefined,
    member:
      name === 'split'
        ? { color: Number.isNaN(color) ? undefined : color, key, channel }
        : undefined,
  };
}

/**
 * The first pair of ranks whose calls do not belong together, `records[rank]` being each rank's
 * encoded call.
 */
export function findMismatch(
  records: readonly Float64Array[],
): readonly [number, number] | undefined {
  const first = records[0];
  if (first === undefined) return undefined;
  const isAllToAll = first[0] === ALL_TO_ALL;
  for (let rank = 1; rank < records.length; rank++) {
    const other = records[rank];
    if (other === undefined) continue;
    for (let field = 0; field < COMPARED; field++) {
      if (field === ELEMENTS && isAllToAll) continue;
      if (first[field] !== other[field]) return [0, rank];
    }
  }
  return isAllToAll ? findSplitMismatch(records) : undefined;
}

const ELEMENTS = 2;
const ALL_TO_ALL = operations.indexOf('allToAll');

/** Of an encoded allToAll: elements that its rank sends to the ranks before `to`. */
export function elementsBefore(fields: Float64Array, to: number): number {
  return fields.subarray(FIXED, FIXED + to).reduce((sum, part) => sum + part, 0);
}

/** What `from` sends to `to` must be what `to` expects of `from`. */
function findSplitMismatch(
  records: readonly Float64Array[],
): readonly [number, number] | undefined {
  const size = records.length;
  for (let from = 0; from < size; from++) {
    for (let to = 0; to < size; to++) {
      if (records[from]?.[FIXED + to] !== records[to]?.[FIXED + size + from]) return [from, to];
    }
  }
  return undefined;
}

function reduceCode(op: ReduceOp): number {
  return typeof op === 'string' ? reduceNames.indexOf(op) : PREMULTIPLIED;
}

function decodeReduce(code: number, factor: number): ReduceOp | undefined {
  return code === PREMULTIPLIED ? { premultipliedSum: factor } : reduceNames[code];
}

function splitsFrom(fields: Float64Array, start: number, size: number): readonly number[] {
  return Array.from(fields.subarray(start, start + size));
}
