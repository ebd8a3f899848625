import type { Backend, Program, Shape } from '@shardwise/core/spec';
import { assertAllclose } from '../../compare/allclose.ts';
import { interpreter } from '../../interpreter/interpreter.ts';
import { randomBits } from '../../interpreter/leaves.ts';
import type { NdArray } from '../../interpreter/nd-array.ts';
import type { ContractTest } from './contract-test.ts';
import { compileSized, type Evaluated, evaluate, pick, reasonNotSized, run } from './device.ts';
import { integers } from './host-value.ts';
import { label } from './op-case.ts';
import { ProgramBuilder } from './program-builder.ts';
import type { Operation } from './program-builder.ts';

const PROGRAMS = 24;
const INSTRUCTIONS = 14;
/** Products and sums are clamped to this, so that integers stay exact in f32. */
const BOUND = 8;
const SINGLE: Shape = [1, 1];

/** Tests of random programs against the interpreter. The programs are the same on every machine. */
export const randomProgramTests: readonly ContractTest[] = Array.from(
  { length: PROGRAMS },
  (_, seed) => ({
    title: `program ${seed}`,
    check: async (backend: Backend): Promise<void> => {
      const { program, inputs } = drawProgram(seed, [4, 5]);
      assertEqual(
        await evaluate(backend, program, inputs),
        await evaluate(interpreter(), program, inputs),
      );
    },
  }),
);

/** Tests of the same programs, each of which is compiled once for all sizes. */
export const randomSizedProgramTests: readonly ContractTest[] = Array.from(
  { length: PROGRAMS },
  (_, seed) => ({
    title: `program ${seed} of any sizes`,
    reasonToSkip: reasonNotSized,
    check: async (backend: Backend): Promise<void> => {
      const executable = await compileSized(backend, {
        symbols: [
          { max: 512, seen: 20, spacing: 1 },
          { max: 64, seen: 30, spacing: 1 },
        ],
        at: (sizes) => drawProgram(seed, sizes).program,
      });
      for (const sizes of [
        [4, 5],
        [2, 3],
        [300, 2],
        [5, 5],
        [20, 64],
        [4, 5],
      ]) {
        const { program, inputs } = drawProgram(seed, sizes);
        assertEqual(
          await run(backend, executable, program, inputs, sizes),
          await evaluate(interpreter(), program, inputs),
        );
      }
      executable.dispose();
    },
  }),
);

function assertEqual(actual: Evaluated, expected: Evaluated): void {
  const exact = { rtol: 0, atol: 0 };
  expected.outputs.forEach((value, i) => assertAllclose(pick(actual.outputs, i), value, exact));
  expected.inputs.forEach((value, i) => assertAllclose(pick(actual.inputs, i), value, exact));
}

/** Makes a random program on matrices of `rows` times `columns`. Its structure does not depend on the sizes. */
function drawProgram(
  seed: number,
  [rows = 0, columns = 0]: readonly number[],
): { program: Program; inputs: NdArray[] } {
  const MATRIX: Shape = [rows, columns];
  const ROW: Shape = [1, columns];
  const COLUMN: Shape = [rows, 1];
  const SHAPES = [MATRIX, MATRIX, ROW, COLUMN, SINGLE];
  let drawn = 0;
  const draw = (count: number): number => (randomBits(seed, 3, drawn++) >>> 0) % count;
  const choose = <T>(list: readonly T[]): T => pick(list, draw(list.length));
  const b = new ProgramBuilder();
  const inputs = SHAPES.map((shape, i) => integers(shape, seed * SHAPES.length + i));
  /** Value ids by shape. */
  const pool = new Map<string, number[]>(SHAPES.map((shape) => [label(shape), []]));
  const keep = (shape: Shape, id: number): void => void pool.get(label(shape))?.push(id);
  const some = (shape: Shape): number => choose(pool.get(label(shape)) ?? []);
  for (const { shape } of inputs) keep(shape, b.input(shape));
  const op = (operation: Operation, operands: number[], shape: Shape): number =>
    b.op(operation, operands, shape);
  const clamp = (id: number, shape: Shape): number => {
    const bound = (value: number): number =>
      op({ op: 'constant', params: { value, shape, dtype: 'f32' } }, [], shape);
    const lowered = op({ op: 'minimum', params: {} }, [id, bound(BOUND)], shape);
    return op({ op: 'maximum', params: {} }, [lowered, bound(-BOUND)], shape);
  };
  const reduce = (dim: 0 | 1): void => {
    const shape = dim === 0 ? ROW : COLUMN;
    const total = op(
      { op: 'sum', params: { dims: [dim] } },
      [some(MATRIX)],
      shape.toSpliced(dim, 1),
    );
    keep(shape, clamp(op({ op: 'reshape', params: { shape } }, [total], shape), shape));
  };
  const steps: readonly (() => void)[] = [
    () => {
      const shape = choose(SHAPES);
      keep(
        shape,
        op({ op: choose(['neg', 'abs', 'sign'] as const), params: {} }, [some(shape)], shape),
      );
    },
    () => {
      const shape = choose(SHAPES);
      const name = choose(['add', 'sub', 'mul', 'maximum', 'minimum'] as const);
      keep(shape, clamp(op({ op: name, params: {} }, [some(shape), some(shape)], shape), shape));
    },
    () => {
      const shape = choose(SHAPES);
      const name = choose(['equal', 'less', 'lessEqual'] as const);
      const condition = b.op({ op: name, params: {} }, [some(shape), some(shape)], shape, 'bool');
      keep(shape, op({ op: 'where', params: {} }, [condition, some(shape), some(shape)], shape));
    },
    () => {
      const from = choose([ROW, COLUMN, SINGLE]);
      keep(MATRIX, op({ op: 'expand', params: { shape: MATRIX } }, [some(from)], MATRIX));
    },
    () => reduce(0),
    () => reduce(1),
    () => {
      const params = { transposeA: true, transposeB: false };
      const product = op({ op: 'matmul', params }, [some(COLUMN), some(MATRIX)], ROW);
      keep(ROW, clamp(product, ROW));
    },
  ];
  for (let i = 0; i < INSTRUCTIONS; i++) choose(steps)();
  for (const [target, shape] of SHAPES.entries()) {
    const value = some(shape);
    if (value >= SHAPES.length && draw(2) === 0) b.update(target, value);
  }
  const outputs = new Set([MATRIX, MATRIX, ROW, COLUMN].map(some));
  return { program: b.build(...outputs), inputs };
}
