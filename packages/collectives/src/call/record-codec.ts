import { dtypeNames, type ReduceOp, type StepSettings } from '@shardwise/core/spec';
import { operations, type CallRecord } from './record.ts';

/**
 * Where the parts of an encoded record are, in f64 numbers. Peers compare those before `color`. They fit into one cache
 * line, so that peers read no more than that. `call` is a number that is made of several small ones.
 */
const Field = {
  call: 0,
  elements: 1,
  factor: 2,
  pass: 3,
  identity: 4,
  stepsBefore: 5,
  steps: 6,
  color: 7,
  key: 8,
  channel: 9,
  splits: 10,
} as const;
/** The fields before this one are equal in calls that belong together. */
const COMPARED: number = Field.stepsBefore;

/** The numbers of steps that an encoded record can tell apart. */
const MOST_STEPS = 2 ** 20;
const HASHES = 2 ** 32;

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
  fields[Field.stepsBefore] = encodeSteps(record.identity?.stepsBefore);
  fields[Field.steps] = encodeSteps(record.identity?.steps);
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

/** Two ranks that have made equally many steps with different settings. */
export interface SettingsMismatch {
  readonly pair: readonly [number, number];
  /** The ranks that have made as many steps as these two. */
  readonly ranks: readonly number[];
  /** Which steps are meant: those before the call was made, or also the one that makes it. */
  readonly of: 'stepsBefore' | 'steps';
}

/** Finds ranks whose steps had different settings. `records` are encoded records of calls that belong together. */
export function findSettingsMismatch(
  records: readonly Float64Array[],
): SettingsMismatch | undefined {
  return mismatchOf(records, 'stepsBefore') ?? mismatchOf(records, 'steps');
}

function mismatchOf(
  records: readonly Float64Array[],
  of: SettingsMismatch['of'],
): SettingsMismatch | undefined {
  const place = Field[of];
  if (!records.some((fields) => fields[place] !== records[0]?.[place])) return undefined;
  // Ranks may be at different steps, because one has read something early. 0: it has said nothing.
  const ranksOf = Map.groupBy(records.keys(), (rank) =>
    Math.floor((records[rank]?.[place] ?? 0) / HASHES),
  );
  for (const [steps, ranks] of ranksOf) {
    const [first = 0] = ranks;
    const other = ranks.find((rank) => records[rank]?.[place] !== records[first]?.[place]);
    if (steps > 0 && other !== undefined) return { pair: [first, other], ranks, of };
  }
  return undefined;
}

/** A number that is not 0, or 0 if nothing is known of the steps. */
function encodeSteps(made: StepSettings | undefined): number {
  if (made === undefined) return 0;
  return (1 + ((made.steps - 1) % MOST_STEPS)) * HASHES + made.hash;
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
