import { dtypeNames, type ReduceOp } from '@shardwise/core/spec';
import { operations, type CallRecord } from './record.ts';

/**
 * Where the parts of an encoded record are, in f64 numbers. The first parts must be equal on all ranks. They fit into
 * one cache line, so that peers which compare them read no more than that. `call` is a number that is made of several
 * small ones.
 */
const Field = {
  call: 0,
  elements: 1,
  factor: 2,
  pass: 3,
  identity: 4,
  color: 5,
  key: 6,
  channel: 7,
  splits: 8,
} as const;
const COMPARED: number = Field.color;

const reduceNames = ['sum', 'avg', 'product', 'min', 'max', 'and', 'or', 'xor'] as const;
const PREMULTIPLIED = reduceNames.length;

/** The number of values that each small number in `call` may have. 0 means that there is none. */
const RADIX = 16;

/** The length of an encoded record, in f64 numbers. */
export function recordFields(size: number): number {
  return Field.splits + 2 * size;
}

/** Writes the fields that the operation has, and leaves the others as they are. */
export function encodeRecord(record: CallRecord, size: number, fields: Float64Array): void {
  const { operation, dtype, root = -1, reduce, member, splits } = record;
  const dtypeCode = dtype === undefined ? 0 : dtypeNames.indexOf(dtype) + 1;
  const reduction = reduce === undefined ? 0 : reduceCode(reduce) + 1;
  const small = operations.indexOf(operation) + RADIX * (dtypeCode + RADIX * reduction);
  fields[Field.call] = small + RADIX ** 3 * (root + 1);
  fields[Field.elements] = record.elements;
  fields[Field.factor] = typeof reduce === 'object' ? reduce.premultipliedSum : 0;
  fields[Field.pass] = record.pass ?? 0;
  fields[Field.identity] = record.identity?.hash ?? 0;
  if (member !== undefined) {
    fields[Field.color] = member.color ?? Number.NaN;
    fields[Field.key] = member.key;
    fields[Field.channel] = member.channel;
  }
  if (splits !== undefined) {
    fields.set(splits.input, Field.splits);
    fields.set(splits.output, Field.splits + size);
  }
}

/** The call of an encoded record. Undefined for numbers to which no call is encoded, which a foreign peer may send. */
export function decodeRecord(fields: Float64Array, size: number): CallRecord | undefined {
  const [call = -1, elements = 0, factor = 0, pass = 0] = fields;
  const color = fields[Field.color] ?? Number.NaN;
  const [key = 0, channel = -1] = fields.subarray(Field.key);
  const name = operations[operationCode(call)];
  if (name === undefined) return undefined;
  const digit = (place: number): number => Math.floor(call / RADIX ** place) % RADIX;
  const root = Math.floor(call / RADIX ** 3) - 1;
  return {
    operation: name,
    dtype: dtypeNames[digit(1) - 1],
    elements,
    root: root < 0 ? undefined : root,
    reduce: decodeReduce(digit(2) - 1, factor),
    pass: pass === 0 ? undefined : pass,
    // Only the rank that made the call can say what it is.
    identity: undefined,
    splits:
      name === 'allToAll'
        ? {
            input: splitsFrom(fields, Field.splits, size),
            output: splitsFrom(fields, Field.splits + size, size),
          }
        : undefined,
    member:
      name === 'split'
        ? { color: Number.isNaN(color) ? undefined : color, key, channel }
        : undefined,
  };
}

/** The first pair of ranks whose calls do not belong together. `records` are the encoded records, by rank. */
export function findMismatch(
  records: readonly Float64Array[],
): readonly [number, number] | undefined {
  const first = records[0];
  if (first === undefined) return undefined;
  const isAllToAll = operationCode(first[Field.call] ?? -1) === ALL_TO_ALL;
  for (let rank = 1; rank < records.length; rank++) {
    const other = records[rank];
    if (other === undefined) continue;
    for (let field = 0; field < COMPARED; field++) {
      if (field === Field.elements && isAllToAll) continue;
      if (first[field] !== other[field]) return [0, rank];
    }
  }
  return isAllToAll ? findSplitMismatch(records) : undefined;
}

const ALL_TO_ALL = operations.indexOf('allToAll');

/** The number of elements that the rank of an encoded allToAll sends to the ranks before `to`. */
export function elementsBefore(fields: Float64Array, to: number): number {
  return fields.subarray(Field.splits, Field.splits + to).reduce((sum, part) => sum + part, 0);
}

/** Finds two ranks of which one sends another number of elements than the other one expects from it. */
function findSplitMismatch(
  records: readonly Float64Array[],
): readonly [number, number] | undefined {
  const size = records.length;
  for (let from = 0; from < size; from++) {
    for (let to = 0; to < size; to++) {
      const sent = records[from]?.[Field.splits + to];
      const expected = records[to]?.[Field.splits + size + from];
      if (sent !== expected) return [from, to];
    }
  }
  return undefined;
}

function operationCode(call: number): number {
  return call % RADIX;
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
