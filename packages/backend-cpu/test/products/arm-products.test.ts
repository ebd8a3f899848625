import { describe, expect, it } from 'vitest';
import { NoCodeError } from '../../src/memory/executable-memory.ts';
import {
  armPanels,
  createArmProductCode,
  writeArmProducts,
} from '../../src/emit/arm64/products/product-code.ts';
import { packedBytesOf } from '../../src/engines/products/operand-panels.ts';
import { planTasks } from '../../src/engines/products/plan-tasks.ts';
import { operandNames } from '../../src/emit/products/task-layout.ts';
import { ArmMachine } from './arm-machine.ts';
import type { MatrixProduct } from '../../src/program/work/matrix-product.ts';
import type { ProductCode } from '../../src/emit/products/product-code.ts';
import type { Packing, ProductKind } from '../../src/program/work/product-kinds.ts';

const products = writeArmProducts();
/** The code begins behind address 0, because address 0 ends the list of tasks. */
const codeAddress = 64;

const addressOf = (name: string): bigint => {
  const byteOffset = products.labels.get(name)?.byteOffset;
  if (byteOffset === undefined) throw new RangeError(`no routine ${name}`);
  return BigInt(codeAddress + byteOffset);
};

const code: ProductCode = {
  run: Object.assign(() => {}, { async: () => {} }),
  callLoop: 0n,
  repeat: 0n,
  readsAhead: false,
  decodesBlocks: false,
  packing: (side, packing, transposes) => addressOf(`${side} ${packing} ${transposes}`),
  multiply: (kind) => addressOf(`multiply ${kind}`),
  tile: (kind, source, rows) => {
    const name = `tile ${kind} ${source} ${rows}`;
    return products.labels.has(name) ? addressOf(name) : undefined;
  },
  panels: armPanels,
};

interface Case {
  readonly kind: ProductKind;
  readonly packing: Packing;
  readonly shape: readonly [rows: number, columns: number, depth: number];
  readonly transposes: readonly [left: boolean, right: boolean];
}

/**
 * Returns the product of small integers that the code makes, and the expected one. The column behind the result must
 * stay -1.
 */
function made({ kind, packing, shape, transposes }: Case): {
  readonly got: readonly number[];
  readonly expected: readonly number[];
} {
  const [rows, columns, depth] = shape;
  const strides = (rowsOf: number, columnsOf: number, isTransposed: boolean) =>
    isTransposed
      ? { byteOffset: 0, rowStride: 1, columnStride: rowsOf }
      : { byteOffset: 0, rowStride: columnsOf, columnStride: 1 };
  const [left, right] = [
    strides(rows, depth, transposes[0]),
    strides(depth, columns, transposes[1]),
  ];
  const rowStride = columns + 1;
  const product: MatrixProduct = {
    kind,
    leftPacking: packing,
    rightPacking: packing,
    rows,
    columns,
    depth,
    left,
    right,
    result: { byteOffset: 0, rowStride },
    scale: 2,
    addend: { byteOffset: 0, rowStride: columns },
    rounds: kind === 'bf16 to f32',
  };
  const tasks = planTasks([product], code);
  const bytes = packing === 'bf16' ? 2 : 4;
  const resultBytes = kind === 'bf16 to bf16' ? 2 : 4;
  const sizes = [
    bytes * rows * depth,
    bytes * depth * columns,
    resultBytes * rows * rowStride,
    4 * rows * columns,
    packedBytesOf([product], code),
    tasks.byteLength,
    8 * operandNames.length,
    4096,
  ];
  let end = codeAddress + products.bytes.length;
  const places = sizes.map((size) => {
    const place = Math.ceil(end / 64) * 64;
    end = place + size;
    return place;
  });
  const [leftAt = 0, rightAt = 0, resultAt = 0, addendAt = 0, , tasksAt = 0, frameAt = 0] = places;
  const machine = new ArmMachine(new ArrayBuffer(Math.ceil(end / 16) * 16));
  const { memory, registers } = machine;
  const all = new Uint8Array(memory.buffer);
  all.set(products.bytes, codeAddress);
  all.set(new Uint8Array(tasks.buffer), tasksAt);
  for (const [index, place] of places.slice(0, operandNames.length).entries()) {
    memory.setBigUint64(frameAt + 8 * index, BigInt(place), true);
  }
  // The bf16 of a small integer is the high half of its f32.
  const put = (place: number, size: number, index: number, value: number): void => {
    const bits = new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0;
    if (size === 4) memory.setUint32(place + 4 * index, bits, true);
    else memory.setUint16(place + 2 * index, bits >>> 16, true);
  };
  const leftValue = (index: number): number => (index % 7) - 3;
  const rightValue = (index: number): number => (index % 5) - 2;
  for (let index = 0; index < rows * depth; index++) put(leftAt, bytes, index, leftValue(index));
  for (let index = 0; index < depth * columns; index++) {
    put(rightAt, bytes, index, rightValue(index));
  }
  for (let index = 0; index < rows * columns; index++) put(addendAt, 4, index, (index % 9) - 4);
  for (let index = 0; index < rows * rowStride; index++) put(resultAt, resultBytes, index, -1);
  const kept = [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29];
  for (const register of kept) registers[register] = 1000 + register;
  const stackEnd = memory.byteLength;
  machine.call(codeAddress + (products.run.byteOffset ?? 0), frameAt, stackEnd);
  expect(kept.map((register) => registers[register])).toEqual(kept.map((name) => 1000 + name));
  expect(registers[31]).toBe(stackEnd);

  const got: number[] = [];
  const expected: number[] = [];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < rowStride; column++) {
      const place = row * rowStride + column;
      const bits =
        resultBytes === 4
          ? memory.getUint32(resultAt + 4 * place, true)
          : memory.getUint16(resultAt + 2 * place, true) << 16;
      got.push(new Float32Array(Uint32Array.of(bits).buffer)[0] ?? NaN);
      let sum = 0;
      for (let k = 0; k < depth; k++) {
        sum +=
          leftValue(row * left.rowStride + k * left.columnStride) *
          rightValue(k * right.rowStride + column * right.columnStride);
      }
      const value = 2 * sum + (((row * columns + column) % 9) - 4);
      expected.push(column === columns ? -1 : kind === 'f32 to f32' ? value : rounded(value));
    }
  }
  return { got, expected };
}

/** Rounds a number to bf16. */
function rounded(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0] ?? 0;
  const kept = (bits + 0x7fff + ((bits >>> 16) & 1)) & 0xffff_0000;
  return new Float32Array(Uint32Array.of(kept).buffer)[0] ?? NaN;
}

const ways: readonly (readonly [ProductKind, Packing])[] = [
  ['f32 to f32', 'f32'],
  ['bf16 to f32', 'bf16'],
  ['bf16 to f32', 'f32 as bf16'],
  ['bf16 to bf16', 'bf16'],
];
const shapes: readonly Case['shape'][] = [
  [1, 1, 1],
  [8, 12, 4],
  [16, 25, 8],
  [13, 23, 7],
  [3, 13, 521],
];

describe('products for AArch64', () => {
  for (const [kind, packing] of ways) {
    it(`of ${kind}, packed from ${packing}, are those of the numbers`, () => {
      for (const shape of shapes) {
        for (const choice of [0, 1, 2, 3]) {
          const transposes = [(choice & 1) > 0, (choice & 2) > 0] as const;
          const { got, expected } = made({ kind, packing, shape, transposes });
          expect(got, `${shape.join(' x ')}, ${transposes.join(' and ')}`).toEqual(expected);
        }
      }
    });
  }

  it('have a kernel for each number of rows', () => {
    for (let rows = 1; rows <= armPanels('f32 to f32').rows; rows++) {
      for (const [kind] of ways) expect(code.tile(kind, 'packed', rows)).toBeDefined();
      expect(code.tile('f32 to f32', 'operand', rows)).toBeDefined();
    }
  });

  it.skipIf(process.arch === 'arm64')('are refused on a processor of another kind', () => {
    expect(() => createArmProductCode()).toThrow(NoCodeError);
  });
});
