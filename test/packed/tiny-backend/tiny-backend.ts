import {
  type Backend,
  BackendError,
  type DType,
  type Executable,
  IndexError,
  type Instruction,
  type PrimitiveOp,
  type PrimitiveParams,
  type Program,
} from '@shardwise/core/spec';
import { Memory } from './memory.ts';
import { ops } from './ops.ts';
import { numbersOf, type Value } from './value.ts';

const computed: ReadonlySet<DType> = new Set<DType>(['f32', 'i32', 'bool']);

/** The ops that accept values of every dtype and keep every bit. */
const moves: ReadonlySet<string> = new Set<PrimitiveOp>([
  'cast',
  'constant',
  'reshape',
  'permute',
  'expand',
  'slice',
  'pad',
  'concat',
  'where',
  'gather',
  'indexSelect',
]);

/** A backend that computes element by element on the heap, one op after the other. */
export function tinyBackend(): Backend {
  return {
    specificationVersion: 1,
    name: 'tiny',
    limits: { dtypes: computed, native: new Set(), alignment: 8 },
    alloc: (byteLength) => Memory.allocate(byteLength),
    // The garbage collector frees memory that is no longer referenced.
    free: () => {},
    write: (buffer, bytes) => Memory.of(buffer).bytes.set(bytes),
    read: async (buffer, target = new Uint8Array(buffer.byteLength)) => {
      target.set(Memory.of(buffer).bytes);
      return target;
    },
    map: (buffer) => Memory.of(buffer).bytes,
    compile: async (program) => compile(program),
    sync: async () => {},
  };
}

function compile(program: Program): Executable {
  const types = [...program.inputs, ...program.instructions];
  const instructions = program.instructions.map((instruction) => {
    const used = [instruction, ...instruction.inputs.flatMap((id) => types[id] ?? [])];
    const other = used.find(({ dtype }) => !computed.has(dtype));
    if (other !== undefined && !moves.has(instruction.op))
      throw refused(instruction.op, other.dtype);
    return primitive(instruction);
  });
  return {
    run: async (inputs, outputs) => {
      const values: Value[] = program.inputs.map((type, i) => {
        const buffer = inputs[i];
        if (buffer === undefined) throw new RangeError(`no input ${i}`);
        return { ...type, bytes: Memory.of(buffer).bytes.slice() };
      });
      for (const [number, instruction] of instructions.entries()) {
        const own = instruction.inputs.flatMap((id) => values[id] ?? []);
        checkIndices(instruction, number, own);
        values.push(compute(instruction, own));
      }
      const put = (buffer: Memory, id: number): void => {
        const value = values[id];
        if (value !== undefined) buffer.bytes.set(value.bytes);
      };
      program.outputs.forEach((id, i) => {
        const buffer = outputs[i];
        if (buffer !== undefined) put(Memory.of(buffer), id);
      });
      for (const { target, value } of program.updates) {
        const buffer = inputs[target];
        if (buffer !== undefined) put(Memory.of(buffer), value);
      }
    },
    dispose: () => {},
  };
}

type Primitive<K extends PrimitiveOp = PrimitiveOp> = {
  [P in K]: Omit<Instruction, 'op' | 'params'> & {
    readonly op: P;
    readonly params: PrimitiveParams[P];
  };
}[K];

function primitive(instruction: Instruction): Primitive {
  if (isPrimitive(instruction)) return instruction;
  throw refused(instruction.op, 'any dtype: limits.native is empty');
}

function isPrimitive(instruction: Instruction): instruction is Instruction & Primitive {
  return Object.hasOwn(ops, instruction.op);
}

function compute<K extends PrimitiveOp>(
  { op, params, shape, dtype }: Primitive<K>,
  inputs: readonly Value[],
): Value {
  return ops[op](params, { shape, dtype }, inputs);
}

function checkIndices(instruction: Primitive, number: number, inputs: readonly Value[]): void {
  const { op } = instruction;
  if (
    op !== 'gather' &&
    op !== 'scatterAdd' &&
    op !== 'scatter' &&
    op !== 'indexSelect' &&
    op !== 'indexAdd'
  ) {
    return;
  }
  const [x, indices] = inputs;
  const size = x?.shape[instruction.params.dim] ?? 0;
  if (indices === undefined) return;
  const numbers = numbersOf(indices);
  const element = numbers.findIndex((index) => index < 0 || index >= size);
  if (element < 0) return;
  const index = numbers[element] ?? 0;
  throw IndexError.ofRun({ op, instruction: number, index, element, size, updated: false });
}

function refused(op: string, of: string): BackendError {
  return new BackendError(
    {
      asked: `to compile ${op} of ${of}`,
      found: `${[...computed].join(', ')} to compute with, and primitive ops`,
      todo: 'Cast, or decompose it first',
    },
    { op },
  );
}
