import { elementCount } from '@shardwise/core/base';
import { BackendError } from '@shardwise/core/spec';
import type {
  DeviceBuffer,
  DType,
  Executable,
  Instruction,
  PrimitiveOp,
  PrimitiveParams,
  Program,
  Shape,
  ValueType,
} from '@shardwise/core/spec';
import { checkIndices } from './check-indices.ts';
import { matmulOfPairs } from './contract.ts';
import { definitions } from './definitions.ts';
import { HostBuffer } from './host-buffer.ts';
import {
  checkLongIntegers,
  fromLongIntegers,
  LongIntegers,
  moveLongIntegers,
  toLongIntegers,
} from './long-integers.ts';
import { NdArray, byteLength } from './nd-array.ts';
import { load, roundToDType, store } from './storage.ts';

export const ALIGNMENT = 16;

type PrimitiveInstruction<K extends PrimitiveOp = PrimitiveOp> = {
  [P in K]: {
    readonly op: P;
    readonly params: PrimitiveParams[P];
    readonly inputs: readonly number[];
    readonly shape: Shape;
    readonly dtype: DType;
  };
}[K];

/** How products of bf16 are summed: in f64 like all others, or as AVX512-BF16 does. */
export type Bf16Sums = 'f64' | 'AVX512-BF16';

/** Checks a program and makes it executable. */
export function compile(program: Program, bf16Sums: Bf16Sums): Executable {
  const instructions = program.instructions.map((instruction, i) => {
    for (const id of instruction.inputs) checkId(id, program.inputs.length + i, instruction.op);
    return primitive(instruction);
  });
  const types: readonly ValueType[] = [...program.inputs, ...instructions];
  for (const { op, dtype, inputs } of instructions) {
    if ([dtype, ...inputs.map((id) => pick(types, id).dtype)].includes('i64'))
      checkLongIntegers(op);
  }
  for (const id of program.outputs) checkId(id, types.length, 'an output');
  if (new Set(program.outputs).size !== program.outputs.length) throw repeatedOutput(program);
  for (const { target, value } of program.updates) {
    checkId(target, program.inputs.length, 'the target of an update');
    checkId(value, types.length, 'the value of an update');
  }
  let disposed = false;
  return {
    run: async (
      inputs: readonly DeviceBuffer[],
      outputs: readonly DeviceBuffer[],
    ): Promise<void> => {
      if (disposed) throw disposedError();
      const sources = bind(inputs, program.inputs, 'input');
      const results = bind(outputs, typesOf(program.outputs, types), 'output');
      checkOverlap(sources, results);
      run({ program, instructions, bf16Sums }, sources, results);
    },
    dispose: (): void => {
      disposed = true;
    },
  };
}

interface Runnable {
  readonly program: Program;
  readonly instructions: readonly PrimitiveInstruction[];
  readonly bf16Sums: Bf16Sums;
}

function run(
  { program, instructions, bf16Sums }: Runnable,
  sources: readonly HostBuffer[],
  results: readonly HostBuffer[],
): void {
  const values = program.inputs.map((type, i) => read(pick(sources, i).bytes(), type));
  for (const [number, instruction] of instructions.entries()) {
    const inputs = instruction.inputs.map((id) => pick(values, id));
    checkIndices(instruction, number, inputs);
    values.push(evaluate(instruction, inputs, bf16Sums));
  }
  program.outputs.forEach((id, i) => write(pick(values, id), pick(results, i).bytes()));
  for (const { target, value } of program.updates) {
    write(pick(values, value), pick(sources, target).bytes());
  }
}

type Value = NdArray | LongIntegers;

function read(bytes: Uint8Array, type: ValueType): Value {
  if (type.dtype !== 'i64') return load(bytes, type);
  const integers = new BigInt64Array(bytes.buffer, bytes.byteOffset, elementCount(type.shape));
  return new LongIntegers(type.shape, integers.slice());
}

function write(value: Value, bytes: Uint8Array): void {
  if (value instanceof NdArray) store(value, bytes);
  else new BigInt64Array(bytes.buffer, bytes.byteOffset, value.values.length).set(value.values);
}

function evaluate(
  instruction: PrimitiveInstruction,
  inputs: readonly Value[],
  bf16Sums: Bf16Sums,
): Value {
  const { op, dtype } = instruction;
  if (op === 'matmul' && bf16Sums === 'AVX512-BF16') {
    const [a, b] = inputs.filter(isNumeric).filter((value) => value.dtype === 'bf16');
    if (a !== undefined && b !== undefined) {
      const out = new NdArray(instruction);
      matmulOfPairs(instruction.params, out, a, b);
      roundToDType(out);
      return out;
    }
  }
  if (inputs.every(isNumeric) && (dtype !== 'i64' || op === 'cast' || op === 'constant')) {
    const out = compute(instruction, instruction, inputs);
    return dtype === 'i64' ? toLongIntegers(out) : out;
  }
  const [x] = inputs;
  if (op === 'cast' && x instanceof LongIntegers) {
    if (dtype === 'i64') return x;
    const out = fromLongIntegers(x, dtype);
    roundToDType(out);
    return out;
  }
  const numbers: ValueType = { shape: instruction.shape, dtype: 'f64' };
  const moved =
    op === 'pad' ? { ...instruction, params: { ...instruction.params, value: 0 } } : instruction;
  const fill = op === 'pad' ? instruction.params.value : 0;
  return moveLongIntegers(instruction.shape, inputs, fill, (numbered) =>
    compute(moved, numbers, numbered),
  );
}

function isNumeric(value: Value): value is NdArray {
  return value instanceof NdArray;
}

function compute(
  instruction: PrimitiveInstruction,
  type: ValueType,
  inputs: readonly NdArray[],
): NdArray {
  const out = new NdArray(type);
  define(instruction, out, inputs);
  roundToDType(out);
  return out;
}

function define<K extends PrimitiveOp>(
  { op, params }: PrimitiveInstruction<K>,
  out: NdArray,
  inputs: readonly NdArray[],
): void {
  definitions[op](params, out, ...inputs);
}

function primitive(instruction: Instruction): PrimitiveInstruction {
  if (isPrimitive(instruction)) return instruction;
  throw new BackendError(
    {
      asked: `to compile the composite op ${instruction.op}`,
      found: 'the interpreter defines primitive ops only (limits.native is empty)',
      todo: 'Decompose it first',
    },
    { op: instruction.op },
  );
}

function isPrimitive(instruction: Instruction): instruction is PrimitiveInstruction {
  return instruction.op in definitions;
}

function typesOf(ids: readonly number[], types: readonly ValueType[]): ValueType[] {
  return ids.map((id) => pick(types, id));
}

/** Returns the interpreter's buffers of a run. Throws if their lengths do not fit the types. */
function bind(
  buffers: readonly DeviceBuffer[],
  types: readonly ValueType[],
  role: 'input' | 'output',
): HostBuffer[] {
  if (buffers.length !== types.length) {
    throw new BackendError(
      {
        asked: `a run with ${buffers.length} ${role}s`,
        found: `the program has ${types.length}`,
        todo: `Give one buffer for each ${role}`,
      },
      { asked: buffers.length, found: types.length },
    );
  }
  return types.map((type, i) => {
    const buffer = HostBuffer.from(pick(buffers, i));
    checkBuffer(buffer, type, `${role} ${i}`);
    return buffer;
  });
}

function checkBuffer(buffer: HostBuffer, type: ValueType, name: string): void {
  const expected = byteLength(type);
  if (buffer.byteLength !== expected) {
    throw new BackendError(
      {
        asked: `${buffer.byteLength} bytes as ${name}`,
        found: `${type.dtype} [${type.shape.join(', ')}] takes ${expected} bytes`,
        todo: 'Give a buffer, or a sub-buffer, of that length',
      },
      { asked: buffer.byteLength, found: expected },
    );
  }
  if (buffer.byteOffset % ALIGNMENT !== 0 && expected > 0) {
    throw new BackendError(
      {
        asked: `byte offset ${buffer.byteOffset} as ${name}`,
        found: `limits.alignment is ${ALIGNMENT} bytes`,
        todo: 'Start sub-buffers at a multiple of it',
      },
      { byteOffset: buffer.byteOffset, alignment: ALIGNMENT },
    );
  }
}

function checkOverlap(sources: readonly HostBuffer[], results: readonly HostBuffer[]): void {
  results.forEach((result, i) => {
    const earlier = results.slice(0, i);
    if ([...sources, ...earlier].some((other) => other.overlaps(result))) {
      throw new BackendError(
        {
          asked: `to write output ${i}`,
          found: 'its bytes are also those of an input or of another output',
          todo: 'Give every output memory of its own',
        },
        { output: i },
      );
    }
  });
}

function checkId(id: number, limit: number, reader: string): void {
  if (Number.isInteger(id) && id >= 0 && id < limit) return;
  throw new BackendError(
    {
      asked: `value ${id} for ${reader}`,
      found: `values 0 to ${limit - 1} exist there`,
      todo: 'Order instructions so that each reads only earlier values',
    },
    { id, limit },
  );
}

function pick<T>(list: readonly T[], i: number): T {
  const item = list[i];
  if (item !== undefined) return item;
  throw new BackendError({
    asked: `item ${i}`,
    found: `a list of ${list.length}`,
    todo: 'Give as many as the program has',
  });
}

function repeatedOutput(program: Program): BackendError {
  return new BackendError({
    asked: `the outputs ${program.outputs.join(', ')}`,
    found: 'a value is listed twice',
    todo: 'List each value once',
  });
}

function disposedError(): BackendError {
  return new BackendError({
    asked: 'to run a program',
    found: 'it has been disposed',
    todo: 'Compile it again',
  });
}
