import { assertAllclose } from '../../compare/allclose.ts';
import type { NdArray } from '../../interpreter/nd-array.ts';
import type { DType, HalfDType, Shape } from '@shardwise/core/spec';
import { type ContractTest, reasonNotNative } from './contract-test.ts';
import { evaluate, pick } from './device.ts';
import { type GroupedCase, groupedCases } from './cases/grouped.ts';
import { hostValue, integers } from './host-value.ts';
import { ProgramBuilder } from './program-builder.ts';

/** The sizes of a product of a [M, K] and b [K, N], with batch dims in front. */
interface Sizes {
  readonly batch: Shape;
  readonly rows: number;
  readonly depth: number;
  readonly columns: number;
}

interface HalfProduct extends Sizes {
  readonly dtype: HalfDType;
  readonly transposeA: boolean;
  readonly transposeB: boolean;
}

const sizes: readonly Sizes[] = [
  { batch: [], rows: 5, depth: 7, columns: 3 },
  { batch: [], rows: 1, depth: 1, columns: 1 },
  { batch: [], rows: 3, depth: 0, columns: 2 },
  { batch: [], rows: 0, depth: 4, columns: 2 },
  { batch: [], rows: 33, depth: 65, columns: 34 },
  { batch: [2, 3], rows: 4, depth: 5, columns: 17 },
];

const transposes = [false, true].flatMap((transposeA) =>
  [false, true].map((transposeB) => ({ transposeA, transposeB })),
);

/**
 * Tests of products of f16 and bf16 in the form in which core writes them. The operands are cast to f32, which loses
 * nothing, and the sum is rounded at most once. The numbers are small integers, so that sums are exact in any order.
 */
export const halfProductTests = (): readonly ContractTest[] => [
  ...(['bf16', 'f16'] as const).flatMap((dtype) =>
    transposes.flatMap((flags) => sizes.map((each) => product({ dtype, ...flags, ...each }))),
  ),
  ...(['bf16', 'f16'] as const).flatMap((dtype) => [
    rounded(dtype),
    moved(dtype),
    summed(dtype, [1, 1]),
    summed(dtype, [6, 7]),
    summed(dtype, [37, 130]),
  ]),
  ...[...groupedCases.groupedMatmul(), ...groupedCases.groupedMatmulWeight()].map((one) =>
    grouped('bf16', one),
  ),
  ...[groupedCases.groupedMatmul, groupedCases.groupedMatmulWeight].flatMap((casesOf) =>
    casesOf()
      .slice(0, 2)
      .map((one) => grouped('f16', one)),
  ),
];

/** Tests the sums of a product, both unrounded and rounded to the dtype. */
function product(given: HalfProduct): ContractTest {
  const { dtype, transposeA, transposeB, batch, rows, depth, columns } = given;
  const shapes = {
    a: [...batch, ...(transposeA ? [depth, rows] : [rows, depth])],
    b: [...batch, ...(transposeB ? [columns, depth] : [depth, columns])],
    y: [...batch, rows, columns],
  };
  const mark = (transposed: boolean): string => (transposed ? ' transposed' : '');
  return {
    title: `${dtype} [${shapes.a.join(', ')}]${mark(transposeA)} x [${shapes.b.join(', ')}]${mark(transposeB)}, summed in f32 and rounded once`,
    check: async (backend) => {
      const range = { low: -50, high: 50, dtype };
      const [a, b] = [integers(shapes.a, 1, range), integers(shapes.b, 2, range)];
      const builder = new ProgramBuilder();
      const operands = [builder.input(shapes.a, dtype), builder.input(shapes.b, dtype)];
      const toWide = { op: 'cast', params: { dtype: 'f32' } } as const;
      const wide = [
        builder.op(toWide, [operands[0] ?? 0], shapes.a),
        builder.op(toWide, [operands[1] ?? 0], shapes.b),
      ];
      const params = { transposeA, transposeB };
      const sums = builder.op({ op: 'matmul', params }, wide, shapes.y);
      const result = builder.op({ op: 'cast', params: { dtype } }, [sums], shapes.y, dtype);
      const { outputs } = await evaluate(backend, builder.build(sums, result), [a, b]);
      const expected = sumsOf(given, a, b);
      assertAllclose(pick(outputs, 0), hostValue(shapes.y, 'f32', expected), exact);
      assertAllclose(pick(outputs, 1), hostValue(shapes.y, dtype, expected), exact);
    },
  };
}

const exact = { rtol: 0, atol: 0 };

/**
 * Tests products of rows in groups. First it tests the sums, both unrounded and rounded to the dtype. Then it tests the
 * result as f32 if the operands are f32 that is rounded to the dtype.
 */
function grouped(
  dtype: HalfDType,
  { title, operation, inputs, expected }: GroupedCase,
): ContractTest {
  const narrow = { op: 'cast', params: { dtype } } as const;
  const toWide = { op: 'cast', params: { dtype: 'f32' } } as const;
  const { shape, values } = expected;
  const multiply = (builder: ProgramBuilder, of: DType): { sums: number; result: number } => {
    // The inputs after the first two contain counts.
    const ids = inputs.map((input, index) => builder.input(input.shape, index > 1 ? 'i32' : of));
    const operands = ids.map((id, index) => {
      if (index > 1) return id;
      const own = inputs[index]?.shape ?? [];
      const half = of === dtype ? id : builder.op(narrow, [id], own, dtype);
      return builder.op(toWide, [half], own);
    });
    const sums = builder.op(operation, operands, shape);
    return { sums, result: builder.op(narrow, [sums], shape, dtype) };
  };
  return {
    title: `${operation.op} of ${dtype}: ${title}`,
    reasonToSkip: (backend) => reasonNotNative(backend, operation.op),
    check: async (backend) => {
      const stored = inputs.map((input, index) =>
        index > 1 ? input : hostValue(input.shape, dtype, [...input.values]),
      );
      const builder = new ProgramBuilder();
      const { sums, result } = multiply(builder, dtype);
      const both = await evaluate(backend, builder.build(sums, result), stored);
      assertAllclose(pick(both.outputs, 0), expected, exact);
      const rounded = hostValue(shape, dtype, [...values]);
      assertAllclose(pick(both.outputs, 1), rounded, exact);
      const ofWide = new ProgramBuilder();
      const wide = ofWide.op(toWide, [multiply(ofWide, 'f32').result], shape);
      const { outputs } = await evaluate(backend, ofWide.build(wide), inputs);
      assertAllclose(pick(outputs, 0), hostValue(shape, 'f32', [...rounded.values]), exact);
    },
  };
}

/** Tests that f32 operands are rounded to the dtype before they are multiplied: to nearest, ties to even. */
function rounded(dtype: HalfDType): ContractTest {
  const digits = dtype === 'bf16' ? 7 : 10;
  return {
    title: `f32 operands that are rounded to ${dtype} for a product`,
    check: async (backend) => {
      const [even, odd] = [1 + 2 ** -(digits + 1), 1 + 3 * 2 ** -(digits + 1)];
      const large = dtype === 'bf16' ? 3.4e38 : 65520;
      const x = hostValue([6, 1], 'f32', [even, odd, -odd, large, Number.NaN, 2 ** -149]);
      const one = hostValue([1, 1], 'f32', 1);
      const builder = new ProgramBuilder();
      const inputs = [builder.input([6, 1]), builder.input([1, 1])];
      const operands = inputs.map((id, index) => {
        const shape = index === 0 ? [6, 1] : [1, 1];
        const half = builder.op({ op: 'cast', params: { dtype } }, [id], shape, dtype);
        return builder.op({ op: 'cast', params: { dtype: 'f32' } }, [half], shape);
      });
      const params = { transposeA: false, transposeB: false };
      const y = builder.op({ op: 'matmul', params }, operands, [6, 1]);
      const { outputs } = await evaluate(backend, builder.build(y), [x, one]);
      const step = 2 ** -digits;
      const up = 1 + 2 * step;
      const wanted = [1, up, -up, Number.POSITIVE_INFINITY, Number.NaN, 0];
      assertAllclose(pick(outputs, 0), hostValue([6, 1], 'f32', wanted), exact);
    },
  };
}

/** Tests that values of 16 bits can be moved, and then be read by products and by other ops. */
function moved(dtype: HalfDType): ContractTest {
  return {
    title: `parts of ${dtype}, moved, multiplied and added`,
    check: async (backend) => {
      const x = integers([3, 4, 34], 3, { low: -50, high: 50, dtype });
      const builder = new ProgramBuilder();
      const input = builder.input([3, 4, 34], dtype);
      const swap = { op: 'permute', params: { order: [1, 0, 2] } } as const;
      const turned = builder.op(swap, [input], [4, 3, 34], dtype);
      const starts = [1, 0, 2];
      const cut = { starts, stops: [4, 3, 33], steps: [1, 1, 1] };
      const part = builder.op({ op: 'slice', params: cut }, [turned], [3, 3, 31], dtype);
      const toWide = { op: 'cast', params: { dtype: 'f32' } } as const;
      const wide = builder.op(toWide, [part], [3, 3, 31]);
      const params = { transposeA: false, transposeB: true };
      const gram = builder.op({ op: 'matmul', params }, [wide, wide], [3, 3, 3]);
      const twice = builder.op({ op: 'add', params: {} }, [wide, wide], [3, 3, 31]);
      const { outputs } = await evaluate(backend, builder.build(gram, twice, part), [x]);
      const at = (item: number, row: number, column: number): number =>
        x.values[row * 4 * 34 + (item + 1) * 34 + column + 2] ?? Number.NaN;
      const cells = (columns: number, value: (i: number, r: number, c: number) => number) =>
        [0, 1, 2].flatMap((item) =>
          [0, 1, 2].flatMap((row) =>
            Array.from({ length: columns }, (_, column) => value(item, row, column)),
          ),
        );
      const products = cells(3, (item, row, column) =>
        Array.from({ length: 31 }, (_, k) => at(item, row, k) * at(item, column, k)).reduce(
          (sum, term) => sum + term,
        ),
      );
      assertAllclose(pick(outputs, 0), hostValue([3, 3, 3], 'f32', products), exact);
      const doubled = cells(31, (...place) => 2 * at(...place));
      assertAllclose(pick(outputs, 1), hostValue([3, 3, 31], 'f32', doubled), exact);
      assertAllclose(pick(outputs, 2), hostValue([3, 3, 31], dtype, cells(31, at)), exact);
    },
  };
}

/** Tests that sums of rows are computed in f32. */
function summed(dtype: HalfDType, shape: readonly [rows: number, columns: number]): ContractTest {
  const [rows, columns] = shape;
  return {
    title: `rows of ${dtype} [${shape.join(', ')}], summed in f32`,
    check: async (backend) => {
      const x = integers(shape, 4, { low: 100, high: 200, dtype });
      const builder = new ProgramBuilder();
      const input = builder.input(shape, dtype);
      const wide = builder.op({ op: 'cast', params: { dtype: 'f32' } }, [input], shape);
      const total = builder.op({ op: 'sum', params: { dims: [0] } }, [wide], [columns]);
      const { outputs } = await evaluate(backend, builder.build(total), [x]);
      const expected = Array.from({ length: columns }, (_, column) => {
        let sum = 0;
        for (let row = 0; row < rows; row++) sum += x.values[row * columns + column] ?? Number.NaN;
        return sum;
      });
      assertAllclose(pick(outputs, 0), hostValue([columns], 'f32', expected), exact);
    },
  };
}

function sumsOf(
  { transposeA, transposeB, batch, rows, depth, columns }: HalfProduct,
  a: NdArray,
  b: NdArray,
): number[] {
  const items = batch.reduce((product, size) => product * size, 1);
  const found: number[] = [];
  for (let item = 0; item < items; item++) {
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        let sum = 0;
        for (let k = 0; k < depth; k++) {
          const left = transposeA ? k * rows + row : row * depth + k;
          const right = transposeB ? column * depth + k : k * columns + column;
          const own = a.values[item * rows * depth + left] ?? Number.NaN;
          sum += own * (b.values[item * depth * columns + right] ?? Number.NaN);
        }
        found.push(sum);
      }
    }
  }
  return found;
}
