import { fork } from 'node:child_process';
import { once } from 'node:events';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cpu } from '../../src/cpu.ts';
import { type InstructionSet, instructionSets } from '../../src/emit/x64/instruction-sets.ts';
import { planTasks } from '../../src/engines/products/plan-tasks.ts';
import type { MatrixProduct } from '../../src/program/work/matrix-product.ts';
import { furthest, numbers } from './product-errors.ts';
import {
  codes,
  type Elements,
  fromBf16,
  machine,
  multiply,
  type TestedSet,
  toBf16,
} from './support.ts';
import type { Packing, ProductKind } from '../../src/program/work/product-kinds.ts';
import type { ProductCode } from '../../src/emit/products/product-code.ts';

/** The sets with products of f32 of their own, and those with products of bf16. */
const floatSets = ['AVX-512', 'AVX2', 'NEON and BFMMLA'] as const;
const halfSets: readonly TestedSet[] = [...instructionSets, 'NEON and BFMMLA'];
const halfWays = [
  ['bf16 to f32', 'bf16'],
  ['bf16 to f32', 'f32 as bf16'],
  ['bf16 to bf16', 'bf16'],
] as const;
/** The products that each instruction set can make, and how they are packed. */
const ways: readonly (readonly [TestedSet, ProductKind, Packing])[] = [
  ...floatSets.map((set) => [set, 'f32 to f32', 'f32'] as const),
  ...halfSets.flatMap((set) => halfWays.map(([kind, packing]) => [set, kind, packing] as const)),
];

function codeOf(set: TestedSet): ProductCode {
  const code = codes[set];
  if (code === undefined) throw new Error(`this processor has no ${set}`);
  return code;
}

describe.each(ways)('a product by %s of %s, packed as %s', (set, kind, packing) => {
  const skipped = codes[set] === undefined;

  it.skipIf(skipped)('is the sum in f64 within its rounding, for every edge of a tile', () => {
    for (const [rows, columns, depth] of [
      [1, 1, 1],
      [14, 32, 4],
      [15, 33, 3],
      [13, 31, 17],
      [28, 64, 2],
      [3, 17, 1100],
      [2, 3, 15_000],
      [64, 33, 1056],
      [430, 16, 300],
      [40, 100, 520],
      [33, 70, 600],
      // These left operands are packed although they have few rows.
      [20, 290, 5],
      [15, 33, 512],
    ] as const) {
      for (const transposeLeft of [false, true]) {
        for (const transposeRight of [false, true]) {
          const of = { kind, packing, rows, columns, depth, transposeLeft, transposeRight };
          expect(furthest(codeOf(set), of), JSON.stringify(of)).toBeLessThanOrEqual(1);
        }
      }
    }
  });

  it.skipIf(skipped)(
    'is the sum in f64 within its rounding for random sizes, scale factors and added rows',
    () => {
      const size = fc.integer({ min: 1, max: 70 });
      fc.assert(
        fc.property(
          fc.record({ rows: size, columns: size, depth: size }),
          fc.boolean(),
          fc.boolean(),
          fc.constantFrom(1, 0.125, -3),
          fc.boolean(),
          (sizes, transposeLeft, transposeRight, scale, adds) => {
            const added = adds ? { addend: numbers(sizes.columns, 3) } : {};
            const of = { kind, packing, ...sizes, transposeLeft, transposeRight, scale, ...added };
            expect(furthest(codeOf(set), of)).toBeLessThanOrEqual(1);
          },
        ),
        { numRuns: 60 },
      );
    },
  );

  it.skipIf(skipped)('keeps NaN and infinities where they belong', () => {
    const [rows, columns, depth] = [16, 34, 5];
    const a = numbers(rows * depth, 1);
    const b = numbers(depth * columns, 2);
    a[3 * depth + 1] = NaN;
    a[7 * depth] = Infinity;
    const stored = (values: Float32Array<ArrayBuffer>) =>
      packing === 'bf16' ? toBf16(values) : values;
    const result = multiply(
      codeOf(set),
      { kind, packing, rows, columns, depth },
      stored(a),
      stored(b),
    );
    for (const [index, value] of result.entries()) {
      const row = Math.floor(index / columns);
      if (row === 3) expect(value).toBeNaN();
      else if (row === 7) expect(Math.abs(value)).toBe(Infinity);
      else expect(Number.isFinite(value)).toBe(true);
    }
  });
});

describe.each(ways)('a product by %s of %s, packed as %s, of few rows', (set, kind, packing) => {
  it.skipIf(codes[set] === undefined)(
    'has the bits of these rows among many, however its operands lie',
    () => {
      const many = 40;
      const [rows, columns] = [fc.integer({ min: 1, max: 8 }), fc.integer({ min: 1, max: 70 })];
      fc.assert(
        fc.property(
          rows,
          columns,
          fc.integer({ min: 1, max: 30 }),
          fc.constantFrom(1, 4, 8, 16),
          fc.boolean(),
          fc.boolean(),
          (fewRows, width, blocks, unit, transposeRight, adds) => {
            const depth = blocks * unit;
            const stored = (values: Float32Array<ArrayBuffer>) =>
              packing === 'bf16' ? toBf16(values) : values;
            const sizes = { kind, packing, columns: width, depth, transposeRight, scale: 0.3 };
            const of = { ...sizes, ...(adds ? { addend: numbers(width, 3) } : {}) };
            const [left, right] = [numbers(many * depth, 1), stored(numbers(depth * width, 2))];
            const all = multiply(codeOf(set), { ...of, rows: many }, stored(left), right);
            const own = stored(left.slice(0, fewRows * depth));
            const few = multiply(codeOf(set), { ...of, rows: fewRows }, own, right);
            expect(few).toEqual(all.slice(0, fewRows * width));
          },
        ),
        { numRuns: 60 },
      );
    },
  );
});

describe.each(halfSets)('a product of bf16 by %s', (set) => {
  it.skipIf(codes[set] === undefined)('has the digits of bf16 in f32 where it is to', () => {
    // The second case sums its terms in two blocks.
    for (const [rows, columns, depth] of [
      [33, 70, 50],
      [20, 40, 1100],
    ] as const) {
      const of = { kind: 'bf16 to f32', packing: 'bf16', rows, columns, depth } as const;
      const [a, b] = [toBf16(numbers(rows * depth, 1)), toBf16(numbers(depth * columns, 2))];
      const rest = { scale: 0.3, addend: numbers(columns, 3) };
      const rounded = multiply(codeOf(set), { ...of, ...rest, rounds: true }, a, b);
      const sums = multiply(codeOf(set), { ...of, ...rest }, a, b);
      expect(rounded).toEqual(fromBf16(toBf16(sums)));
      expect(rounded).not.toEqual(sums);
    }
  });
});

describe.each(floatSets)('a product of f32 by %s', (set) => {
  const of = { kind: 'f32 to f32', packing: 'f32', rows: 1, columns: 1 } as const;

  it.skipIf(codes[set] === undefined)(
    'sums in the order of k, each term by one fused multiply-add',
    () => {
      // A fused term is rounded once: (1 + e)² - (1 + 2 e) is e² and not 0, and 2²⁴ + 1 - 2²⁴ depends on the order.
      const e = 2 ** -12;
      const left = Float32Array.of(-1, 1 + e, 2 ** 24, 1, -(2 ** 24));
      const right = Float32Array.of(1 + 2 * e, 1 + e, 1, 1, 1);
      const code = codeOf(set);
      expect(multiply(code, { ...of, depth: 2 }, left, right)[0]).toBe(e * e);
      expect(multiply(code, { ...of, depth: 3 }, left.slice(2), right.slice(2))[0]).toBe(0);
    },
  );

  it.skipIf(codes[set] === undefined)(
    'of few rows has the bits of these rows among many, although its right operand is not packed',
    () => {
      const many = 40;
      for (const [rows, columns, depth] of [
        [1, 2048, 40],
        [5, 300, 230],
        [31, 288, 241],
      ] as const) {
        const sizes = { ...of, columns, depth, scale: 0.3, addend: numbers(columns, 3) };
        const [left, right] = [numbers(many * depth, 1), numbers(depth * columns, 2)];
        const all = multiply(codeOf(set), { ...sizes, rows: many }, left, right);
        const few = multiply(codeOf(set), { ...sizes, rows }, left.slice(0, rows * depth), right);
        expect(few).toEqual(all.slice(0, rows * columns));
      }
    },
  );

  it.skipIf(codes[set] === undefined)('keeps denormal values', () => {
    const [left, right] = [Float32Array.of(2 ** -140), Float32Array.of(0.5)];
    expect(multiply(codeOf(set), { ...of, depth: 1 }, left, right)[0]).toBe(2 ** -141);
  });
});

/** Arbitrary bits, including NaN, infinities and denormal values. */
const anyBits = (count: number): fc.Arbitrary<Uint16Array<ArrayBuffer>> =>
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { minLength: count, maxLength: count })
    .map((halves) => Uint16Array.from(halves));
/** Converts values to text. -0 differs from 0, and all NaN are equal. */
const bitsOf = (values: Float32Array): string[] =>
  Array.from(values, (value) => (Object.is(value, -0) ? '-0' : String(value)));

describe('the same bits', () => {
  it.skipIf(codes['AVX-512'] === undefined)('have products of f32 by AVX-512 and by AVX2', () => {
    const [rows, columns, depth] = [45, 70, 1100];
    const of = { kind: 'f32 to f32', packing: 'f32', rows, columns, depth } as const;
    const [a, b] = [numbers(rows * depth, 1), numbers(depth * columns, 2)];
    const wide = multiply(codeOf('AVX-512'), of, a, b);
    expect(multiply(codeOf('AVX2'), of, a, b)).toEqual(wide);
  });

  it.skipIf(codes['AVX512-BF16'] === undefined).each(halfWays)(
    'have products of %s, packed as %s, with the instruction for bf16 and without it',
    (kind, packing) => {
      const of = { kind, packing, rows: 7, columns: 18, depth: 9, scale: 2 ** -20 } as const;
      const [left, right] = [of.rows * of.depth, of.depth * of.columns];
      fc.assert(
        fc.property(anyBits(2 * left), anyBits(2 * right), fc.boolean(), (a, b, rounds) => {
          const elements = (halves: Uint16Array<ArrayBuffer>, count: number): Elements =>
            packing === 'bf16' ? halves.subarray(0, count) : new Float32Array(halves.buffer);
          const [x, y] = [elements(a, left), elements(b, right)];
          const made = (set: InstructionSet): string[] =>
            bitsOf(multiply(codeOf(set), { ...of, rounds }, x, y));
          const expected = made('AVX512-BF16');
          expect(made('AVX-512')).toEqual(expected);
          expect(made('AVX2')).toEqual(expected);
        }),
        { numRuns: 30 },
      );
    },
  );
});

describe('products of few rows and many terms', () => {
  it.each(Object.entries(codes))(
    'by %s read rows of bf16 where as much of them is packed as there is memory for',
    (_, code) => {
      const of = { kind: 'bf16 to f32', leftPacking: 'bf16', rightPacking: 'bf16' } as const;
      const kernel = code.tile(of.kind, 'transposed', 1);
      const reads = (depth: number): boolean => {
        const product: MatrixProduct = {
          ...of,
          rows: 1,
          columns: 64,
          depth,
          left: { byteOffset: 0, rowStride: depth, columnStride: 1 },
          right: { byteOffset: 0, rowStride: 1, columnStride: depth },
          result: { byteOffset: 0, rowStride: 64 },
          scale: 1,
          addend: null,
          rounds: false,
        };
        return kernel !== undefined && planTasks([product], code).includes(kernel);
      };
      expect(reads(4096)).toBe(kernel !== undefined);
      // A row of 200,000 terms does not fit into the memory for rows.
      expect(reads(200_000)).toBe(false);
    },
  );
});

describe('where products are made by machine code', () => {
  it.skipIf(machine.kind === 'none')(
    'nothing is read or written that is not part of an operand',
    async () => {
      const child = fork(new URL('./guard-pages.ts', import.meta.url));
      let made: unknown = 0;
      child.once('message', (count) => {
        made = count;
      });
      expect(await once(child, 'exit')).toEqual([0, null]);
      expect(made).toBeGreaterThan(0);
    },
  );

  it('a backend says by which instructions, and why where ONNX Runtime makes them', async () => {
    const { products } = await cpu();
    expect(products).toEqual(
      machine.kind === 'own'
        ? { by: 'own', instructions: machine.instructions }
        : { by: 'onnxruntime', reason: machine.reason },
    );
    const { products: asked } = await cpu({ products: 'onnxruntime' });
    expect(asked).toEqual({ by: 'onnxruntime', reason: 'it was asked for' });
  });
});
