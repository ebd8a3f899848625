import {
  ConfigError,
  describeValue,
  DTypeError,
  dtypes,
  ShapeError,
  type DType,
  type ReduceOp,
  type TypedBytes,
} from '@shardwise/core/spec';
import { describeReduce, type Splits } from './record.ts';

/** Tags of send and recv are below this. */
export const MAX_TAG: number = 1 << 20;

/**
 * The number of elements of a buffer. Throws DTypeError for an unknown dtype and for a value that is no memory with a
 * dtype, such as a tensor. Throws ShapeError if the memory does not hold a whole number of elements.
 */
export function checkBuffer(operation: string, name: string, buffer: TypedBytes): number {
  const given: Partial<TypedBytes> | null | undefined = buffer;
  const hasBytes = given?.bytes instanceof Uint8Array;
  if (!hasBytes || !Object.hasOwn(dtypes, buffer.dtype)) {
    throw new DTypeError(
      {
        asked: `${operation} of ${hasBytes ? `a buffer of dtype ${buffer.dtype}` : describeValue(given)}`,
        found: `no ${name} { bytes: Uint8Array, dtype } of a dtype among ${Object.keys(dtypes).join(', ')}`,
        todo: 'Convert the values first',
      },
      { operation, dtype: given?.dtype },
    );
  }
  const elements = buffer.bytes.byteLength / dtypes[buffer.dtype].bytes;
  if (!Number.isInteger(elements)) {
    throw shapeError(operation, `${name} of dtype ${buffer.dtype}`, {
      found: `${buffer.bytes.byteLength} bytes, which is not a multiple of ${dtypes[buffer.dtype].bytes}`,
      todo: 'Pass whole elements',
    });
  }
  return elements;
}

/**
 * Throws unless `many` is `size` times as long as `one`, and either shares no bytes with it or has it as part
 * `rank`.
 */
export function checkParts(
  operation: string,
  one: { readonly name: string; readonly buffer: TypedBytes },
  many: { readonly name: string; readonly buffer: TypedBytes },
  { rank, size }: { readonly rank: number; readonly size: number },
): void {
  const part = checkBuffer(operation, one.name, one.buffer);
  const whole = checkBuffer(operation, many.name, many.buffer);
  checkSameDType(operation, one.buffer.dtype, many.buffer.dtype);
  if (whole !== part * size) {
    throw shapeError(operation, `${one.name} of ${part} elements and ${many.name} of ${whole}`, {
      found: `over ${size} ranks ${many.name} must have ${part * size} elements`,
      todo: `Make ${many.name} ${size} times as long as ${one.name}`,
    });
  }
  checkPlace(operation, one, many, rank * one.buffer.bytes.byteLength);
}

/**
 * Throws unless `input` can replace the values of `buffer`. It must have the same dtype and length, and either share no
 * bytes with the buffer or be the same memory.
 */
export function checkInput(operation: string, input: TypedBytes, buffer: TypedBytes): void {
  const elements = checkBuffer(operation, 'input', input);
  checkSameDType(operation, input.dtype, buffer.dtype);
  if (input.bytes.byteLength !== buffer.bytes.byteLength) {
    const expected = buffer.bytes.byteLength / dtypes[buffer.dtype].bytes;
    throw shapeError(operation, `an input of ${elements} elements`, {
      found: `the buffer has ${expected}`,
      todo: 'Give both the same length',
    });
  }
  checkPlace(operation, { name: 'input', buffer: input }, { name: 'buffer', buffer }, 0);
}

/** Throws ConfigError if the two share bytes. */
export function checkDisjoint(operation: string, input: TypedBytes, output: TypedBytes): void {
  if (!overlaps(input.bytes, output.bytes)) return;
  throw overlapError(operation, 'input and output', 'Give the output its own memory');
}

/** Throws ConfigError if `one` shares bytes with `many` and does not begin `byteOffset` bytes after its start. */
function checkPlace(
  operation: string,
  one: { readonly name: string; readonly buffer: TypedBytes },
  many: { readonly name: string; readonly buffer: TypedBytes },
  byteOffset: number,
): void {
  const { bytes } = one.buffer;
  const whole = many.buffer.bytes;
  if (!overlaps(bytes, whole) || bytes.byteOffset === whole.byteOffset + byteOffset) return;
  throw overlapError(
    operation,
    `${one.name} at byte ${bytes.byteOffset} and ${many.name} at byte ${whole.byteOffset} of one memory`,
    `Let ${one.name} begin at byte ${byteOffset} of ${many.name}, or give it its own memory`,
  );
}

function overlaps(a: Uint8Array, b: Uint8Array): boolean {
  return (
    a.buffer === b.buffer &&
    a.byteOffset < b.byteOffset + b.byteLength &&
    b.byteOffset < a.byteOffset + a.byteLength
  );
}

function overlapError(operation: string, buffers: string, todo: string): ConfigError {
  return new ConfigError(
    { asked: `${operation} with ${buffers}`, found: 'they share bytes', todo },
    { operation },
  );
}

export function checkSameDType(operation: string, input: DType, output: DType): void {
  if (input === output) return;
  throw new DTypeError(
    {
      asked: `${operation} with input ${input} and output ${output}`,
      found: 'the dtypes differ',
      todo: 'Give both buffers one dtype',
    },
    { operation, input, output },
  );
}

export function checkRank(operation: string, name: string, rank: number, size: number): void {
  if (Number.isInteger(rank) && rank >= 0 && rank < size) return;
  throw new ConfigError(
    {
      asked: `${operation} with ${name} ${rank}`,
      found: `the ranks of the group are 0 to ${size - 1}`,
      todo: `Pass a ${name} among them`,
    },
    { operation, [name]: rank, size },
  );
}

export function checkPeer(operation: string, peer: number, rank: number, size: number): void {
  checkRank(operation, 'peer', peer, size);
  if (peer !== rank) return;
  throw new ConfigError(
    {
      asked: `${operation} between rank ${rank} and itself`,
      found: 'a message needs two ranks',
      todo: 'Copy the values instead',
    },
    { operation, rank },
  );
}

export function checkTag(operation: string, tag: number): void {
  if (Number.isInteger(tag) && tag >= 0 && tag < MAX_TAG) return;
  throw new ConfigError(
    {
      asked: `${operation} with tag ${tag}`,
      found: `tags are integers from 0 to ${MAX_TAG - 1}`,
      todo: 'Pass a tag among them',
    },
    { operation, tag },
  );
}

/**
 * Throws DTypeError for a reduction that the dtype does not have: averages and factors need fractions, and bit
 * operations need bits.
 */
export function checkReduce(operation: string, op: ReduceOp, dtype: DType): void {
  const kind = dtypes[dtype].kind;
  const allowed =
    typeof op === 'object' && op !== null
      ? kind === 'float' && Number.isFinite(op.premultipliedSum)
      : (kindsOf[op]?.includes(kind) ?? false);
  if (allowed) return;
  throw new DTypeError(
    {
      asked: `${operation} with ${describeReduce(op)} of ${dtype}`,
      found: `${dtype} holds ${kind} values`,
      todo: 'avg and premultipliedSum take floats; and, or and xor take ints and bools',
    },
    { operation, op, dtype },
  );
}

const kindsOf: Record<Exclude<ReduceOp, object>, readonly string[]> = {
  sum: ['float', 'int'],
  product: ['float', 'int'],
  avg: ['float'],
  min: ['float', 'int', 'bool'],
  max: ['float', 'int', 'bool'],
  and: ['int', 'bool'],
  or: ['int', 'bool'],
  xor: ['int', 'bool'],
};

/**
 * Checks the splits of both sides. Without splits, the parts are equal. Throws ShapeError for splits that do
 * not fit.
 */
export function checkSplits(
  input: { readonly elements: number; readonly splits: readonly number[] | undefined },
  output: { readonly elements: number; readonly splits: readonly number[] | undefined },
  size: number,
): Splits {
  return { input: resolve('input', input, size), output: resolve('output', output, size) };
}

function resolve(
  name: string,
  {
    elements,
    splits,
  }: { readonly elements: number; readonly splits: readonly number[] | undefined },
  size: number,
): readonly number[] {
  if (splits === undefined) {
    if (elements % size === 0) return Array.from({ length: size }, () => elements / size);
    throw shapeError('allToAll', `${name} of ${elements} elements in ${size} equal parts`, {
      found: `${elements} is not a multiple of ${size}`,
      todo: `Pass ${name}Splits`,
    });
  }
  const total = splits.reduce((sum, part) => sum + part, 0);
  const valid = splits.every((part) => Number.isInteger(part) && part >= 0);
  if (valid && splits.length === size && total === elements) return [...splits];
  throw shapeError('allToAll', `${name}Splits [${splits.join(', ')}]`, {
    found: `there are ${size} ranks and ${name} has ${elements} elements`,
    todo: 'Pass a count for each rank, with that sum',
  });
}

function shapeError(
  operation: string,
  what: string,
  parts: { readonly found: string; readonly todo: string },
): ShapeError {
  return new ShapeError({ asked: `${operation} with ${what}`, ...parts }, { operation });
}
