import type { Backend, Program } from '@shardwise/core/spec';
import { assertAllclose } from '../../compare/allclose.ts';
import type { NdArray } from '../../interpreter/nd-array.ts';
import { type ContractTest, reasonNotNative } from './contract-test.ts';
import { evaluate, pick } from './device.ts';
import { bool, f32, hostValue, i32 } from './host-value.ts';
import { ProgramBuilder } from './program-builder.ts';

const ADD = { op: 'add', params: {} } as const;
const MUL = { op: 'mul', params: {} } as const;
const NEG = { op: 'neg', params: {} } as const;
const SUB = { op: 'sub', params: {} } as const;
const ONE_TWO = f32([2], [1, 2]);

interface Expectation {
  readonly inputs: readonly NdArray[];
  readonly outputs?: readonly NdArray[];
  /** The contents of the inputs after the run. Default: their contents before it. */
  readonly after?: readonly NdArray[];
}

/** Tests of programs with several instructions, outputs and updates. */
export const programTests: readonly ContractTest[] = [
  test('an input is directly an output', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    return [b.build(x), { inputs: [ONE_TWO], outputs: [ONE_TWO] }];
  }),
  test('an i32 and a bool input are directly outputs', () => {
    const b = new ProgramBuilder();
    const [x, y] = [b.input([2], 'i32'), b.input([2], 'bool')];
    const inputs = [i32([2], [7, -7]), bool([2], [1, 0])];
    return [b.build(y, x), { inputs, outputs: inputs.toReversed() }];
  }),
  test('an input and what is computed from it are outputs', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    const y = b.op(NEG, [x], [2]);
    return [b.build(y, x), { inputs: [ONE_TWO], outputs: [f32([2], [-1, -2]), ONE_TWO] }];
  }),
  test('values on the way to an output are outputs', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    const y = b.op(ADD, [x, x], [2]);
    const z = b.op(MUL, [y, y], [2]);
    const outputs = [f32([2], [4, 16]), f32([2], [2, 4])];
    return [b.build(z, y), { inputs: [ONE_TWO], outputs }];
  }),
  test('a reshape and what it reshapes are outputs', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    const y = b.op(NEG, [x], [2]);
    const z = b.op({ op: 'reshape', params: { shape: [2, 1] } }, [y], [2, 1]);
    const w = b.op({ op: 'reshape', params: { shape: [1, 2] } }, [x], [1, 2]);
    const outputs = [f32([2], [-1, -2]), f32([2, 1], [-1, -2]), f32([1, 2], [1, 2])];
    return [b.build(y, z, w), { inputs: [ONE_TWO], outputs }];
  }),
  test('forty outputs', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    const ids: number[] = [];
    for (let i = 0; i < 40; i++) ids.push(b.op(ADD, [ids.at(-1) ?? x, x], [2]));
    const outputs = ids.map((_, i) => f32([2], [i + 2, 2 * (i + 2)]));
    return [b.build(...ids), { inputs: [ONE_TWO], outputs }];
  }),
  test('a program without inputs', () => {
    const b = new ProgramBuilder();
    const params = { value: 3, shape: [2], dtype: 'f32' } as const;
    const x = b.op({ op: 'constant', params }, [], [2]);
    return [b.build(b.op(ADD, [x, x], [2])), { inputs: [], outputs: [f32([2], 6)] }];
  }),
  ...(['f16', 'bf16'] as const).map((dtype) =>
    test(`${dtype} values are converted behind what expands them`, () => {
      const b = new ProgramBuilder();
      const [x, row] = [b.input([2, 2]), b.input([1, 2], dtype)];
      const grid = { op: 'expand', params: { shape: [2, 2] } } as const;
      const powerOf = (exponent: number, shape: readonly number[]): number => {
        const wide = b.op({ op: 'cast', params: { dtype: 'f32' } }, [exponent], shape);
        const flat = b.op({ op: 'reshape', params: { shape } }, [x], shape);
        return b.op({ op: 'pow', params: {} }, [flat, wide], shape);
      };
      const params = { value: 1.5, shape: [], dtype } as const;
      const scalar = b.op({ op: 'constant', params }, [], [], dtype);
      const number = b.op({ op: 'reshape', params: { shape: [1, 1] } }, [scalar], [1, 1], dtype);
      const rows = b.op(grid, [row], [2, 2], dtype);
      const list = b.op({ op: 'reshape', params: { shape: [4] } }, [rows], [4], dtype);
      const outputs = [
        powerOf(b.op(grid, [row], [2, 2], dtype), [2, 2]),
        powerOf(b.op(grid, [number], [2, 2], dtype), [2, 2]),
        powerOf(list, [4]),
      ];
      return [
        b.build(...outputs),
        {
          inputs: [f32([2, 2], [4, 9, 16, 25]), hostValue([1, 2], dtype, [1, 0.5])],
          outputs: [
            f32([2, 2], [4, 3, 16, 5]),
            f32([2, 2], [8, 27, 64, 125]),
            f32([4], [4, 3, 16, 5]),
          ],
        },
      ];
    }),
  ),
  ...(['f16', 'bf16'] as const).map((dtype) => ({
    reasonToSkip: (backend: Backend) => reasonNotNative(backend, 'softmax'),
    ...test(`${dtype} rows are added to what is made of them`, () => {
      const b = new ProgramBuilder();
      const x = b.input([2, 2], dtype);
      const wide = b.op({ op: 'cast', params: { dtype: 'f32' } }, [x], [2, 2]);
      const shares = b.op({ op: 'softmax', params: {} }, [wide], [2, 2]);
      const inputs = [hostValue([2, 2], dtype, [1, 1, 2, 2])];
      const outputs = [f32([2, 2], [1.5, 1.5, 2.5, 2.5])];
      return [b.build(b.op(ADD, [shares, wide], [2, 2])), { inputs, outputs }];
    }),
  })),
  ...(['f16', 'bf16', 'u8'] as const).map((dtype) =>
    test(`${dtype} values are moved and chosen`, () => {
      const b = new ProgramBuilder();
      const [x, condition, index] = [
        b.input([2, 3], dtype),
        b.input([4, 3], 'bool'),
        b.input([2], 'i32'),
      ];
      const turned = b.op({ op: 'permute', params: { order: [1, 0] } }, [x], [3, 2], dtype);
      const cut = { starts: [0, 1], stops: [2, 3], steps: [1, 1] };
      const slice = b.op({ op: 'slice', params: cut }, [x], [2, 2], dtype);
      const around = { before: [1, 0], after: [1, 0], value: 2 };
      const padded = b.op({ op: 'pad', params: around }, [x], [4, 3], dtype);
      const joined = b.op({ op: 'concat', params: { dim: 0 } }, [x, x], [4, 3], dtype);
      const chosen = b.op({ op: 'where', params: {} }, [condition, padded, joined], [4, 3], dtype);
      const rows = b.op({ op: 'indexSelect', params: { dim: 0 } }, [x, index], [2, 3], dtype);
      const value = (shape: readonly number[], elements: readonly number[]): NdArray =>
        hostValue(shape, dtype, elements);
      return [
        b.build(turned, slice, padded, chosen, rows),
        {
          inputs: [
            value([2, 3], [1, 2, 3, 4, 5, 6]),
            bool([4, 3], [1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0]),
            i32([2], [1, 1]),
          ],
          outputs: [
            value([3, 2], [1, 4, 2, 5, 3, 6]),
            value([2, 2], [2, 3, 5, 6]),
            value([4, 3], [2, 2, 2, 1, 2, 3, 4, 5, 6, 2, 2, 2]),
            value([4, 3], [2, 2, 2, 4, 5, 6, 4, 2, 6, 4, 2, 6]),
            value([2, 3], [4, 5, 6, 4, 5, 6]),
          ],
        },
      ];
    }),
  ),
  test('a program that does nothing', () => [new ProgramBuilder().build(), { inputs: [] }]),
  test('inputs and instructions that nothing reads', () => {
    const b = new ProgramBuilder();
    const [x, y] = [b.input([2]), b.input([3])];
    b.op(NEG, [y], [3]);
    const z = b.op(NEG, [x], [2]);
    return [b.build(z), { inputs: [ONE_TWO, f32([3], 1)], outputs: [f32([2], [-1, -2])] }];
  }),
  test('two constants that differ in dtype only', () => {
    const b = new ProgramBuilder();
    const whole = b.op(
      { op: 'constant', params: { value: 1, shape: [2], dtype: 'i32' } },
      [],
      [2],
      'i32',
    );
    const real = b.op({ op: 'constant', params: { value: 1, shape: [2], dtype: 'f32' } }, [], [2]);
    return [b.build(whole, real), { inputs: [], outputs: [i32([2], 1), f32([2], 1)] }];
  }),
  test('an expanded scalar scales a matrix', () => {
    const b = new ProgramBuilder();
    const [x, s] = [b.input([2, 2]), b.input([])];
    const one = b.op({ op: 'reshape', params: { shape: [1, 1] } }, [s], [1, 1]);
    const all = b.op({ op: 'expand', params: { shape: [2, 2] } }, [one], [2, 2]);
    const y = b.op(MUL, [x, all], [2, 2]);
    const inputs = [f32([2, 2], [1, 2, 3, 4]), f32([], 10)];
    return [b.build(y, all), { inputs, outputs: [f32([2, 2], [10, 20, 30, 40]), f32([2, 2], 10)] }];
  }),
  test('an expanded value is summed and multiplied as a matrix', () => {
    const b = new ProgramBuilder();
    const x = b.input([1, 2]);
    const rows = b.op({ op: 'expand', params: { shape: [3, 2] } }, [x], [3, 2]);
    const total = b.op({ op: 'sum', params: { dims: [0] } }, [rows], [2]);
    const params = { transposeA: true, transposeB: false };
    const gram = b.op({ op: 'matmul', params }, [rows, rows], [2, 2]);
    const outputs = [f32([2], [3, 6]), f32([2, 2], [3, 6, 6, 12])];
    return [b.build(total, gram), { inputs: [f32([1, 2], [1, 2])], outputs }];
  }),
  test('a permuted value is read by a matmul, an add and the host', () => {
    const b = new ProgramBuilder();
    const x = b.input([2, 2]);
    const t = b.op({ op: 'permute', params: { order: [1, 0] } }, [x], [2, 2]);
    const params = { transposeA: false, transposeB: false };
    const product = b.op({ op: 'matmul', params }, [t, x], [2, 2]);
    const total = b.op(ADD, [t, x], [2, 2]);
    return [
      b.build(product, total, t),
      {
        inputs: [f32([2, 2], [1, 2, 3, 4])],
        outputs: [
          f32([2, 2], [10, 14, 14, 20]),
          f32([2, 2], [2, 5, 5, 8]),
          f32([2, 2], [1, 3, 2, 4]),
        ],
      },
    ];
  }),

  test('an update replaces its target', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    const y = b.op(ADD, [x, x], [2]);
    return [b.update(x, y).build(), { inputs: [ONE_TWO], after: [f32([2], [2, 4])] }];
  }),
  test('a scalar, an i32, a bool and an empty target are updated', () => {
    const b = new ProgramBuilder();
    const [s, n] = [b.input([]), b.input([2], 'i32')];
    const [m, e] = [b.input([2], 'bool'), b.input([0])];
    b.update(s, b.op(ADD, [s, s], []));
    b.update(n, b.op(NEG, [n], [2], 'i32'));
    b.update(m, b.op({ op: 'logicalNot', params: {} }, [m], [2], 'bool'));
    b.update(e, b.op(NEG, [e], [0]));
    const inputs = [f32([], 3), i32([2], [1, -2]), bool([2], [1, 0]), f32([0], [])];
    const after = [f32([], 6), i32([2], [-1, 2]), bool([2], [0, 1]), f32([0], [])];
    return [b.build(), { inputs, after }];
  }),
  test('instructions before and after an update read the old value', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    const before = b.op(NEG, [x], [2]);
    const value = b.op(ADD, [x, x], [2]);
    const after = b.op(SUB, [x, value], [2]);
    const sum = b.op({ op: 'sum', params: { dims: [0] } }, [x], []);
    b.update(x, value);
    const outputs = [f32([2], [-1, -2]), f32([2], [-1, -2]), f32([], 3)];
    return [b.build(before, after, sum), { inputs: [ONE_TWO], outputs, after: [f32([2], [2, 4])] }];
  }),
  test('an output that is the target of an update has the old value', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    b.update(x, b.op(NEG, [x], [2]));
    return [b.build(x), { inputs: [ONE_TWO], outputs: [ONE_TWO], after: [f32([2], [-1, -2])] }];
  }),
  test('the value of an update is also an output', () => {
    const b = new ProgramBuilder();
    const x = b.input([2]);
    const y = b.op(NEG, [x], [2]);
    const expected = f32([2], [-1, -2]);
    return [b.update(x, y).build(y), { inputs: [ONE_TWO], outputs: [expected], after: [expected] }];
  }),
  test('one value updates two targets', () => {
    const b = new ProgramBuilder();
    const [x, y] = [b.input([2]), b.input([2])];
    const z = b.op(ADD, [x, y], [2]);
    const inputs = [ONE_TWO, f32([2], [10, 20])];
    const expected = f32([2], [11, 22]);
    return [b.update(x, z).update(y, z).build(), { inputs, after: [expected, expected] }];
  }),
  test('two updates read each other and see the old values', () => {
    const b = new ProgramBuilder();
    const [x, y] = [b.input([2]), b.input([2])];
    const sum = b.op(ADD, [x, y], [2]);
    const difference = b.op(SUB, [x, y], [2]);
    const inputs = [ONE_TWO, f32([2], [10, 20])];
    const after = [f32([2], [11, 22]), f32([2], [-9, -18])];
    return [b.update(x, sum).update(y, difference).build(), { inputs, after }];
  }),
  test('two updates swap their targets', () => {
    const b = new ProgramBuilder();
    const [x, y] = [b.input([2]), b.input([2])];
    const reshape = { op: 'reshape', params: { shape: [2] } } as const;
    b.update(x, b.op(reshape, [y], [2])).update(y, b.op(reshape, [x], [2]));
    const inputs = [ONE_TWO, f32([2], [10, 20])];
    return [b.build(), { inputs, after: inputs.toReversed() }];
  }),
  test('a target gets what another one was, which a later instruction changes', () => {
    const b = new ProgramBuilder();
    const [x, y] = [b.input([2]), b.input([2])];
    const reshape = { op: 'reshape', params: { shape: [2] } } as const;
    b.update(x, b.op(reshape, [y], [2])).update(y, b.op(ADD, [x, y], [2]));
    const inputs = [ONE_TWO, f32([2], [10, 20])];
    const after = [f32([2], [10, 20]), f32([2], [11, 22])];
    return [b.build(), { inputs, after }];
  }),
  test('an update by a permutation of its own target', () => {
    const b = new ProgramBuilder();
    const x = b.input([2, 2]);
    b.update(x, b.op({ op: 'permute', params: { order: [1, 0] } }, [x], [2, 2]));
    return [b.build(), { inputs: [f32([2, 2], [1, 2, 3, 4])], after: [f32([2, 2], [1, 3, 2, 4])] }];
  }),
  test('an update by a matmul with its own target', () => {
    const b = new ProgramBuilder();
    const x = b.input([2, 2]);
    const params = { transposeA: false, transposeB: false };
    b.update(x, b.op({ op: 'matmul', params }, [x, x], [2, 2]));
    return [b.build(), { inputs: [f32([2, 2], [1, 1, 0, 1])], after: [f32([2, 2], [1, 2, 0, 1])] }];
  }),
  test('an update by its own target, normalised by its sum', () => {
    const b = new ProgramBuilder();
    const x = b.input([4]);
    const total = b.op({ op: 'sum', params: { dims: [0] } }, [x], []);
    const one = b.op({ op: 'reshape', params: { shape: [1] } }, [total], [1]);
    const all = b.op({ op: 'expand', params: { shape: [4] } }, [one], [4]);
    b.update(x, b.op({ op: 'div', params: {} }, [x, all], [4]));
    return [
      b.build(total),
      { inputs: [f32([4], 2)], outputs: [f32([], 8)], after: [f32([4], 0.25)] },
    ];
  }),
  test('a step of momentum updates parameter and momentum', () => {
    const b = new ProgramBuilder();
    const [p, m, g] = [b.input([2]), b.input([2]), b.input([2])];
    const half = b.op(
      { op: 'constant', params: { value: 0.5, shape: [2], dtype: 'f32' } },
      [],
      [2],
    );
    const velocity = b.op(ADD, [b.op(MUL, [half, m], [2]), g], [2]);
    b.update(m, velocity).update(p, b.op(SUB, [p, b.op(MUL, [half, velocity], [2])], [2]));
    const inputs = [ONE_TWO, f32([2], [4, 8]), f32([2], [2, -2])];
    return [b.build(), { inputs, after: [f32([2], [-1, 1]), f32([2], [4, 2]), f32([2], [2, -2])] }];
  }),
];

function test(title: string, make: () => [Program, Expectation]): ContractTest {
  return {
    title,
    check: async (backend: Backend): Promise<void> => {
      const [program, { inputs, outputs = [], after = inputs }] = make();
      const actual = await evaluate(backend, program, inputs);
      const exact = { rtol: 0, atol: 0 };
      outputs.forEach((output, i) => assertAllclose(pick(actual.outputs, i), output, exact));
      after.forEach((input, i) => assertAllclose(pick(actual.inputs, i), input, exact));
    },
  };
}
