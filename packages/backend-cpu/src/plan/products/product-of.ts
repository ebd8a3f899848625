import type { ValueType } from '@shardwise/core/spec';
import {
  type BatchedProduct,
  type BatchOperand,
  isThin,
} from '../../program/work/batched-product.ts';
import type { AttentionPlanning } from '../attention/attention-planning.ts';
import type { Dataflow } from '../../program/dataflow.ts';
import { packingOf, viewOf } from './product-views.ts';
import {
  inputAt,
  type CpuInstruction,
  type InstructionMap,
  valueAt,
} from '../../program/instruction.ts';
import type { ProductKind } from '../../program/work/product-kinds.ts';

/** Describes a product with a weight in blocks. Returns undefined if the rows are not in memory yet. */
export type BlockPlanning = (
  instruction: InstructionMap['blockedLinear'],
  values: readonly ValueType[],
  flow: Dataflow,
) => BatchedProduct | undefined;

/** Which products a backend computes with its own code. */
export interface OwnProducts {
  /** Whether it also computes products of bf16 values. */
  readonly bf16: boolean;
  /**
   * Whether it also computes an f32 product that ONNX Runtime computes faster. It does if loops in JavaScript are the
   * alternative, if rows must have the same bits beside any others, and if the sizes of the product vary, because the
   * choice must not depend on them.
   */
  readonly thin: boolean | ((product: BatchedProduct) => boolean);
  /** Describes products with weights in blocks. Absent if they are decomposed before. */
  readonly blocks?: BlockPlanning;
  /** Null if attention is decomposed before. */
  readonly attention: AttentionPlanning | null;
}

/**
 * Describes an instruction as a product of ours. Returns undefined if machine code does not compute the instruction.
 */
export function productOf(
  instruction: CpuInstruction,
  values: readonly ValueType[],
  flow: Dataflow,
  own: OwnProducts | null,
): BatchedProduct | undefined {
  if (own === null) return undefined;
  if (instruction.op === 'blockedLinear') return own.blocks?.(instruction, values, flow);
  if (instruction.op !== 'matmul') return undefined;
  const kind = kindOf(instruction, values);
  if (kind === undefined || (kind !== 'f32 to f32' && !own.bf16)) return undefined;
  const { transposeA, transposeB, scale = 1, rounds = false } = instruction.params;
  const batch = instruction.shape.slice(0, -2);
  const left = operandOf(inputAt(instruction, 0), values, flow, batch.length, transposeA);
  const right = operandOf(inputAt(instruction, 1), values, flow, batch.length, transposeB);
  const addend = addendOf(instruction, values, flow);
  if (left === undefined || right === undefined || addend === undefined) return undefined;
  const product: BatchedProduct = {
    kind,
    batch,
    rows: instruction.shape.at(-2) ?? 1,
    columns: instruction.shape.at(-1) ?? 1,
    depth: depthOf(instruction, values),
    left,
    right,
    result: instruction.output,
    scale,
    addend,
    rounds,
  };
  if (!isThin(product)) return product;
  const isOwn = typeof own.thin === 'boolean' ? own.thin : own.thin(product);
  return isOwn ? product : undefined;
}

function kindOf(
  instruction: CpuInstruction,
  values: readonly ValueType[],
): ProductKind | undefined {
  const [a, b] = [0, 1].map((index) => valueAt(values, inputAt(instruction, index)).dtype);
  if (a !== b) return undefined;
  if (a === 'f32' && instruction.dtype === 'f32') return 'f32 to f32';
  if (a !== 'bf16') return undefined;
  if (instruction.dtype === 'f32') return 'bf16 to f32';
  return instruction.dtype === 'bf16' ? 'bf16 to bf16' : undefined;
}

function depthOf(instruction: InstructionMap['matmul'], values: readonly ValueType[]): number {
  const { shape } = valueAt(values, inputAt(instruction, 0));
  return shape.at(instruction.params.transposeA ? -2 : -1) ?? 1;
}

/**
 * Describes an operand as it lies in memory. Returns undefined if neither its rows nor its columns have adjacent
 * elements, or if the value is not in memory. Packing rounds f32 values that are multiplied as bf16.
 */
export function operandOf(
  id: number,
  values: readonly ValueType[],
  flow: Dataflow,
  batchDims: number,
  transposed: boolean,
): BatchOperand | undefined {
  const view = viewOf(id, values, flow);
  if (view === undefined) return undefined;
  const { root, shape, strides } = view;
  const dims = shape.length - 2;
  const [first = 0, second = 0] = strides.slice(-2);
  const [rowStride, columnStride] = transposed ? [second, first] : [first, second];
  const [rows = 1, columns = 1] = transposed ? shape.slice(-2).toReversed() : shape.slice(-2);
  // A dim of one element has any stride.
  const row = rows === 1 && columnStride !== 1 ? 1 : rowStride;
  const column = columns === 1 && row !== 1 ? 1 : columnStride;
  if (row !== 1 && column !== 1) return undefined;
  const batchStrides = Array.from({ length: batchDims }, (_, dim) => {
    const own = dim - (batchDims - dims);
    return own < 0 || shape[own] === 1 ? 0 : (strides[own] ?? 0);
  });
  const packing = packingOf(id, view, values);
  return { value: root, batchStrides, rowStride: row, columnStride: column, packing };
}

/** Returns null if nothing is added, and undefined if the kernels cannot add the value as it lies. */
function addendOf(
  instruction: InstructionMap['matmul'],
  values: readonly ValueType[],
  flow: Dataflow,
): BatchedProduct['addend'] | undefined {
  const [, , id] = instruction.inputs;
  if (id === undefined) return null;
  const view = viewOf(id, values, flow);
  const [rowStride = 0, columnStride = 0] = view?.strides.slice(-2) ?? [];
  const isPlain = columnStride === 1 || instruction.shape.at(-1) === 1;
  return view !== undefined && isPlain ? { value: view.root, rowStride } : undefined;
}
