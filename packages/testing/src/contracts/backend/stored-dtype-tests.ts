import { equal } from '../../suite/assertions.ts';
import { dtypes } from '@shardwise/core/spec';
import type { Backend, DType, Program, Shape } from '@shardwise/core/spec';
import type { NdArray } from '../../interpreter/nd-array.ts';
import type { ContractTest } from './contract-test.ts';
import { bool, hostValue, i32 } from './host-value.ts';
import type { OpCase } from './op-case.ts';
import { ProgramBuilder } from './program-builder.ts';
import type { Operation } from './program-builder.ts';
import { runCase } from './run-case.ts';

const allDTypes = [
  'f64',
  'f32',
  'f16',
  'bf16',
  'i64',
  'i32',
  'u8',
  'bool',
] as const satisfies readonly DType[];
const stored = ['f64', 'f16', 'bf16', 'i64', 'u8'] as const satisfies readonly DType[];

/** Tests that dtypes that a backend need not compute with can be moved, and cast from and to every dtype. */
export const storedDTypeTests: readonly ContractTest[] = [
  ...stored.flatMap(movements).map(toTest),
  ...allDTypes.flatMap((from) => allDTypes.map((to) => conversion(from, to))).map(toTest),
  ...bits(),
];

function toTest(opCase: OpCase): ContractTest {
  return { title: opCase.title, check: (backend) => runCase(backend, opCase) };
}

/** Makes values that every dtype except bool can express. */
function values(dtype: DType, shape: Shape, first = 1): NdArray {
  const count = shape.reduce((product, size) => product * size, 1);
  return hostValue(
    shape,
    dtype,
    Array.from({ length: count }, (_, i) => first + i),
  );
}

function movements(dtype: DType): OpCase[] {
  const move = (
    title: string,
    operation: Operation,
    inputs: readonly NdArray[],
    shape: Shape,
    elements: readonly number[],
  ): OpCase => ({
    title: `${title} of ${dtype}`,
    operation,
    inputs,
    expected: hostValue(shape, dtype, elements),
  });
  const x = values(dtype, [2, 3]);
  const ones = { starts: [0, 1], stops: [2, 3], steps: [1, 1] };
  const around = { before: [1, 0], after: [0, 1], value: 7 };
  return [
    move('constant', { op: 'constant', params: { value: 3, shape: [2], dtype } }, [], [2], [3, 3]),
    move('reshape', { op: 'reshape', params: { shape: [3, 2] } }, [x], [3, 2], [1, 2, 3, 4, 5, 6]),
    move('permute', { op: 'permute', params: { order: [1, 0] } }, [x], [3, 2], [1, 4, 2, 5, 3, 6]),
    move(
      'expand',
      { op: 'expand', params: { shape: [2, 3] } },
      [values(dtype, [2, 1])],
      [2, 3],
      [1, 1, 1, 2, 2, 2],
    ),
    move('slice', { op: 'slice', params: ones }, [x], [2, 2], [2, 3, 5, 6]),
    move(
      'slice by steps',
      { op: 'slice', params: { ...ones, starts: [0, 0], steps: [1, 2] } },
      [x],
      [2, 2],
      [1, 3, 4, 6],
    ),
    move('pad', { op: 'pad', params: around }, [x], [3, 4], [7, 7, 7, 7, 1, 2, 3, 7, 4, 5, 6, 7]),
    move(
      'concat',
      { op: 'concat', params: { dim: 1 } },
      [x, values(dtype, [2, 1], 8)],
      [2, 4],
      [1, 2, 3, 8, 4, 5, 6, 9],
    ),
    move(
      'where',
      { op: 'where', params: {} },
      [bool([2, 3], [1, 0, 1, 0, 0, 1]), x, values(dtype, [2, 3], 11)],
      [2, 3],
      [1, 12, 3, 14, 15, 6],
    ),
    move(
      'gather',
      { op: 'gather', params: { dim: 1 } },
      [x, i32([2, 2], [2, 0, 1, 1])],
      [2, 2],
      [3, 1, 5, 5],
    ),
    move(
      'indexSelect',
      { op: 'indexSelect', params: { dim: 0 } },
      [x, i32([3], [1, 0, 1])],
      [3, 3],
      [4, 5, 6, 1, 2, 3, 4, 5, 6],
    ),
    move(
      'indexSelect of the last dim',
      { op: 'indexSelect', params: { dim: 1 } },
      [x, i32([1], [2])],
      [2, 1],
      [3, 6],
    ),
  ];
}

function conversion(from: DType, to: DType): OpCase {
  const signed = from === 'u8' || to === 'u8' ? [] : [-1, -3.75, -100];
  const x = hostValue([7], from, [0, 1, 2.5, 100, ...[...signed, 3, 4, 5].slice(0, 3)]);
  return {
    title: `cast from ${from} to ${to}`,
    operation: { op: 'cast', params: { dtype: to } },
    inputs: [x],
    expected: hostValue([7], to, [...x.values]),
  };
}

interface BitsCase {
  readonly title: string;
  readonly inputs: readonly ArrayBufferView[];
  readonly types: readonly DType[];
  readonly make: (b: ProgramBuilder, inputs: readonly number[]) => number;
  readonly expected: ArrayBufferView;
}

/** Tests values that are different in memory but equal as numbers of the host. */
function bits(): ContractTest[] {
  const long = BigInt64Array.of(2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n, -1n);
  const to =
    (dtype: DType) =>
    (b: ProgramBuilder, [x = 0]: readonly number[]): number =>
      b.op({ op: 'cast', params: { dtype } }, [x], [4], dtype);
  const cases: BitsCase[] = [
    {
      title: 'i64 keeps all its bits',
      inputs: [long, BigInt64Array.of(5n, 2n ** 62n + 1n)],
      types: ['i64', 'i64'],
      make: (b, [x = 0, y = 1]) => {
        const half = { starts: [1], stops: [3], steps: [1] };
        const middle = b.op({ op: 'slice', params: half }, [x], [2], 'i64');
        return b.op({ op: 'concat', params: { dim: 0 } }, [middle, y], [4], 'i64');
      },
      expected: BigInt64Array.of(-(2n ** 63n), 2n ** 53n + 1n, 5n, 2n ** 62n + 1n),
    },
    {
      title: 'i64 to f32 rounds once, to nearest, ties to even',
      inputs: [BigInt64Array.of(2n ** 60n + 2n ** 36n + 1n, 2n ** 24n + 1n, -(2n ** 63n), -7n)],
      types: ['i64'],
      make: to('f32'),
      expected: Float32Array.of(2 ** 60 + 2 ** 37, 2 ** 24, -(2 ** 63), -7),
    },
    {
      title: 'i64 to i32 wraps around',
      inputs: [long],
      types: ['i64'],
      make: to('i32'),
      expected: Int32Array.of(-1, 0, 1, -1),
    },
    {
      title: 'i64 to bool looks at all bits',
      inputs: [BigInt64Array.of(2n ** 32n, 0n, -(2n ** 63n), 1n)],
      types: ['i64'],
      make: to('bool'),
      expected: Uint8Array.of(1, 0, 1, 1),
    },
    {
      title: 'f64 to f32 rounds to nearest',
      inputs: [Float64Array.of(0.1, 1e300, -Infinity, 1 + 2 ** -24 + 2 ** -50)],
      types: ['f64'],
      make: to('f32'),
      expected: Float32Array.of(0.1, Infinity, -Infinity, 1 + 2 ** -23),
    },
    {
      title: 'f32 to f64 and i32 to i64 are exact',
      inputs: [Float32Array.of(0.1, -0, Infinity, 2 ** -149)],
      types: ['f32'],
      make: to('f64'),
      expected: Float64Array.of(Math.fround(0.1), -0, Infinity, 2 ** -149),
    },
    {
      title: 'i32 to i64 keeps the sign',
      inputs: [Int32Array.of(-1, 5, -(2 ** 31), 2 ** 31 - 1)],
      types: ['i32'],
      make: to('i64'),
      expected: BigInt64Array.of(-1n, 5n, -(2n ** 31n), 2n ** 31n - 1n),
    },
    {
      title: 'f64 to i64 is exact beyond f32',
      inputs: [Float64Array.of(2 ** 53, -(2 ** 40) - 0.5, 1.9, -1.9)],
      types: ['f64'],
      make: to('i64'),
      expected: BigInt64Array.of(2n ** 53n, -(2n ** 40n), 1n, -1n),
    },
  ];
  return cases.map(({ title, inputs, types, make, expected }) => ({
    title,
    check: async (backend: Backend): Promise<void> => {
      const b = new ProgramBuilder();
      const ids = inputs.map(({ byteLength }, i) => {
        const dtype = types[i] ?? 'f32';
        return b.input([byteLength / dtypes[dtype].bytes], dtype);
      });
      const program: Program = b.build(make(b, ids));
      equal(await runBytes(backend, program, inputs), bytesOf(expected));
    },
  }));
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return Uint8Array.from(new Uint8Array(buffer, byteOffset, byteLength));
}

/** Returns the bytes of a program's only output, whose length follows from the type of the last instruction. */
async function runBytes(
  backend: Backend,
  program: Program,
  inputs: readonly ArrayBufferView[],
): Promise<Uint8Array> {
  const sources = inputs.map((input) => {
    const buffer = backend.alloc(input.byteLength);
    backend.write(buffer, bytesOf(input));
    return buffer;
  });
  const last = program.instructions.at(-1);
  const count = last?.shape.reduce((product, size) => product * size, 1) ?? 0;
  const result = backend.alloc(count * dtypes[last?.dtype ?? 'f32'].bytes);
  const executable = await backend.compile(program);
  await executable.run(sources, [result]);
  const bytes = Uint8Array.from(await backend.read(result));
  for (const buffer of [...sources, result]) backend.free(buffer);
  executable.dispose();
  return bytes;
}
