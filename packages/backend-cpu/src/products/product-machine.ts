import { addressOf } from '../onnx/runtime/api.ts';
import { NoCodeError } from '../machine-code/code-pages.ts';
import { requireBfmmla } from '../machine-code/arm/processor.ts';
import { type InstructionSet, instructionSets } from '../machine-code/instruction-sets.ts';
import {
  type ProcessorFeatures,
  processorFeatures,
  requireVectors,
  upTo,
  type VectorInstructions,
} from '../machine-code/processor.ts';
import { createArmProductCode } from './arm/arm-product-code.ts';
import { operandNames } from './task-layout.ts';
import { type MatrixProduct, packedBytes, planTasks } from './plan-tasks.ts';
import { createProductCode, type ProductCode } from './product-code.ts';
import type { ProductKind } from './product-types.ts';

/** The instructions that compute products, by the dtype of their operands. */
export interface ProductInstructions {
  /** NEON is for AArch64 processors, on which machine code does not run yet. */
  readonly f32: VectorInstructions | 'NEON';
  /** AVX-512 and AVX2 multiply the values as f32 and give the bits of AVX512-BF16. BFMMLA is used with NEON. */
  readonly bf16: InstructionSet | 'BFMMLA';
}

/** How this thread makes products of matrices: by machine code of ours, or not, and why. */
export type ProductMachine =
  | { readonly kind: 'own'; readonly code: ProductCode; readonly instructions: ProductInstructions }
  | { readonly kind: 'none'; readonly reason: string };

const known = new Map<InstructionSet, ProductMachine>();

/** Found out once for each thread. No instructions before `newest` are used. */
export function productMachine(newest: InstructionSet = instructionSets[0]): ProductMachine {
  const machine = known.get(newest) ?? findMachine(newest);
  known.set(newest, machine);
  return machine;
}

function findMachine(newest: InstructionSet): ProductMachine {
  try {
    if (process.arch === 'arm64') return findArmMachine();
    const features = processorFeatures();
    requireVectors(features);
    let wrong: ProductKind | undefined;
    // What does not compute as it should is left out.
    for (const set of instructionSets.slice(instructionSets.indexOf(newest))) {
      const tried = upTo(set, features);
      const code = createProductCode(tried);
      wrong = kinds.find((kind) => !isRight(kind, code));
      if (wrong === undefined) return { kind: 'own', code, instructions: instructionsOf(tried) };
    }
    return differs(wrong);
  } catch (error) {
    if (error instanceof NoCodeError) return none(error.message);
    return unexpected(error instanceof Error ? error.message : String(error));
  }
}

/** One set of instructions, which `newest` does not name. */
function findArmMachine(): ProductMachine {
  requireBfmmla();
  const code = createArmProductCode();
  const wrong = kinds.find((kind) => !isRight(kind, code));
  if (wrong !== undefined) return differs(wrong);
  return { kind: 'own', code, instructions: { f32: 'NEON', bf16: 'BFMMLA' } };
}

const kinds = ['f32 to f32', 'bf16 to f32'] as const;

function none(reason: string): ProductMachine {
  return { kind: 'none', reason };
}

function differs(kind: ProductKind | undefined): ProductMachine {
  return unexpected(`products of ${kind} are not what JavaScript makes of the same numbers`);
}

/** A processor that has all it takes, and yet ONNX Runtime is to make the products: that is worth a word. */
function unexpected(reason: string): ProductMachine {
  console.warn(`shardwise: ONNX Runtime makes products of matrices, as ${reason}`);
  return none(reason);
}

function instructionsOf(features: ProcessorFeatures): ProductInstructions {
  const f32 = requireVectors(features);
  return { f32, bf16: features.tiles ? 'AMX-BF16' : features.bf16 ? 'AVX512-BF16' : f32 };
}

/** Bytes that begin at a cache line, and stay where they are. */
export function alignedBytes(byteLength: number): Uint8Array {
  const lineBytes = 64;
  const bytes = new Uint8Array(new ArrayBuffer(byteLength + lineBytes));
  const start = (lineBytes - Number(addressOf(bytes) % BigInt(lineBytes))) % lineBytes;
  return bytes.subarray(start, start + byteLength);
}

/** Where the operands of tasks lie. */
export type Frame = BigUint64Array;

export function createFrame(): Frame {
  return new BigUint64Array(new ArrayBuffer(8 * operandNames.length));
}

const sizes = { rows: 17, columns: 37, depth: 19 };

/** Whether the machine computes what JavaScript does. Values that are rounded to bf16 as they are packed are small integers. */
function isRight(kind: ProductKind, code: ProductCode): boolean {
  const { rows, columns, depth } = sizes;
  const left = Float32Array.from({ length: rows * depth }, (_, index) => (index % 7) - 3);
  const right = Float32Array.from({ length: depth * columns }, (_, index) => (index % 5) - 2);
  const result = new Float32Array(rows * columns);
  const packing = kind === 'f32 to f32' ? 'f32' : 'f32 as bf16';
  const product: MatrixProduct = {
    kind,
    leftPacking: packing,
    rightPacking: packing,
    rows,
    columns,
    depth,
    left: { byteOffset: 0, rowStride: depth, columnStride: 1 },
    right: { byteOffset: 0, rowStride: columns, columnStride: 1 },
    result: { byteOffset: 0, rowStride: columns },
    scale: 1,
    addend: null,
    rounds: false,
  };
  const tasks = planTasks([product], code);
  const packed = alignedBytes(packedBytes);
  const places = [left, right, result, result, packed, tasks].map(
    ({ buffer, byteOffset, byteLength }) =>
      addressOf(new Uint8Array(buffer, byteOffset, byteLength)),
  );
  const frame = createFrame();
  frame.set(places);
  code.run(frame);
  // Sums of small integers are exact.
  return result.every((value, index) => {
    const [row, column] = [Math.floor(index / columns), index % columns];
    let sum = 0;
    for (let k = 0; k < depth; k++) {
      sum += (left[row * depth + k] ?? NaN) * (right[k * columns + column] ?? NaN);
    }
    return value === sum;
  });
}
