import { equal, rejects } from '../../suite/assertions.ts';
import { IndexError } from '@shardwise/core/spec';
import type { Backend, Program } from '@shardwise/core/spec';
import type { NdArray } from '../../interpreter/nd-array.ts';
import type { ContractTest } from './contract-test.ts';
import { download, pick, typeOf, upload } from './device.ts';
import { f32, i32 } from './host-value.ts';
import { ProgramBuilder } from './program-builder.ts';

const ADD = { op: 'add', params: {} } as const;
const SUB = { op: 'sub', params: {} } as const;
const TABLE = f32([3, 2], [0, 1, 10, 11, 20, 21]);

/** A program whose instruction number `instruction` takes its indices from input 1. */
interface Indexing {
  readonly title: string;
  readonly program: () => Program;
  readonly instruction: number;
  /** Input 0, and the inputs after the indices. */
  readonly inputs: readonly NdArray[];
  /** The shape of the indices. */
  readonly shape: readonly number[];
  readonly size: number;
}

const indexings: readonly Indexing[] = [
  {
    title: 'gather',
    program: () => {
      const b = new ProgramBuilder();
      const [x, index] = [b.input([3, 2]), b.input([2, 2], 'i32')];
      return b.build(b.op({ op: 'gather', params: { dim: 0 } }, [x, index], [2, 2]));
    },
    instruction: 0,
    inputs: [TABLE],
    shape: [2, 2],
    size: 3,
  },
  {
    title: 'scatterAdd',
    program: () => {
      const b = new ProgramBuilder();
      const [x, index, source] = [b.input([3, 2]), b.input([2, 2], 'i32'), b.input([2, 2])];
      const params = { dim: 1 };
      return b.build(b.op({ op: 'scatterAdd', params }, [x, index, source], [3, 2]));
    },
    instruction: 0,
    inputs: [TABLE, f32([2, 2], 1)],
    shape: [2, 2],
    size: 2,
  },
  {
    title: 'indexSelect',
    program: () => {
      const b = new ProgramBuilder();
      const [x, index] = [b.input([3, 2]), b.input([4], 'i32')];
      return b.build(b.op({ op: 'indexSelect', params: { dim: 0 } }, [x, index], [4, 2]));
    },
    instruction: 0,
    inputs: [TABLE],
    shape: [4],
    size: 3,
  },
  {
    title: 'indexAdd',
    program: () => {
      const b = new ProgramBuilder();
      const [x, index, source] = [b.input([3, 2]), b.input([4], 'i32'), b.input([3, 4])];
      const params = { dim: 1 };
      return b.build(b.op({ op: 'indexAdd', params }, [x, index, source], [3, 2]));
    },
    instruction: 0,
    inputs: [TABLE, f32([3, 4], 1)],
    shape: [4],
    size: 2,
  },
  {
    title: 'computed indices',
    program: () => {
      const b = new ProgramBuilder();
      const [x, raw] = [b.input([3, 2]), b.input([2, 2], 'i32')];
      const one = { value: 1, shape: [2, 2], dtype: 'i32' } as const;
      const ones = b.op({ op: 'constant', params: one }, [], [2, 2], 'i32');
      const index = b.op(ADD, [b.op(SUB, [raw, ones], [2, 2], 'i32'), ones], [2, 2], 'i32');
      const flat = b.op({ op: 'reshape', params: { shape: [4] } }, [index], [4], 'i32');
      const rows = b.op({ op: 'indexSelect', params: { dim: 0 } }, [x, flat], [4, 2]);
      return b.build(b.op({ op: 'neg', params: {} }, [rows], [4, 2]));
    },
    instruction: 4,
    inputs: [TABLE],
    shape: [2, 2],
    size: 3,
  },
];

const bad = [-1, -3, -(2 ** 31), 'size', 2 ** 31 - 1] as const;

/** Tests that an index out of range ends a run with IndexError, and has no other effect. */
export const indexTests: readonly ContractTest[] = [
  ...indexings.flatMap((indexing) =>
    bad.map((index) => ({
      title: `${indexing.title}: ${index === 'size' ? 'one beyond the last' : index} is out of range`,
      check: (backend: Backend) =>
        checkFault(backend, indexing, index === 'size' ? indexing.size : index),
    })),
  ),
  {
    title: 'a run with an index out of range updates nothing, or says so',
    check: async (backend) => {
      const b = new ProgramBuilder();
      const [x, index, target] = [b.input([3, 2]), b.input([1], 'i32'), b.input([1, 2])];
      const rows = b.op({ op: 'indexSelect', params: { dim: 0 } }, [x, index], [1, 2]);
      b.update(target, b.op(ADD, [target, rows], [1, 2]));
      const executable = await backend.compile(b.build());
      const start = f32([1, 2], [5, 6]);
      const buffers = [TABLE, i32([1], 3), start].map((value) => upload(backend, value));
      const { fields } = await rejects(executable.run(buffers, []), IndexError);
      const after = await download(backend, pick(buffers, 2), start);
      if (fields['updated'] === false) equal([...after.values], [5, 6]);
      backend.write(pick(buffers, 1), new Uint8Array(Int32Array.of(2).buffer));
      backend.write(pick(buffers, 2), new Uint8Array(Float32Array.of(5, 6).buffer));
      await executable.run(buffers, []);
      const again = await download(backend, pick(buffers, 2), start);
      equal([...again.values], [25, 27]);
      for (const buffer of buffers) backend.free(buffer);
      executable.dispose();
    },
  },
];

async function checkFault(
  backend: Backend,
  { program: make, instruction, inputs, shape, size }: Indexing,
  index: number,
): Promise<void> {
  const program = make();
  const executable = await backend.compile(program);
  const [x = TABLE, ...rest] = inputs;
  const element = 2;
  const indices = (value: number): NdArray => i32(shape, [0, 1, value, 0]);
  const sources = [x, indices(index), ...rest].map((value) => upload(backend, value));
  const type = typeOf(program, pick(program.outputs, 0));
  const result = upload(backend, f32(type.shape, 0));
  const { op } = pick(program.instructions, instruction);
  const { fields } = await rejects(executable.run(sources, [result]), IndexError);
  equal(fields, { op, instruction, index, element, size, updated: false });
  // The backend must still work, and the program must run with good indices.
  backend.write(pick(sources, 1), new Uint8Array(Int32Array.of(0, 1, 1, 0).buffer));
  await executable.run(sources, [result]);
  for (const buffer of [...sources, result]) backend.free(buffer);
  executable.dispose();
}
