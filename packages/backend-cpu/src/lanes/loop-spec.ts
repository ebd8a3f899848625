import { BackendError, type ComputeOp, type DType, type Shape } from '@shardwise/core/spec';
import { elementCount } from '@shardwise/core/base';

/**
 * The dtypes that lanes of kernels can hold. Kernels compute with f32, i32 and bool (lane masks in registers, and bytes
 * in memory). The other dtypes are only converted and moved, as bits at the low end of a lane.
 */
export type LaneDType = 'f32' | 'i32' | 'bool' | 'f16' | 'bf16' | 'u8';

export const laneBytes: Readonly<Record<LaneDType, 1 | 2 | 4>> = {
  f32: 4,
  i32: 4,
  bool: 1,
  f16: 2,
  bf16: 2,
  u8: 1,
};

/** Whether kernels compute with a dtype, and do not only convert it. */
export function isComputeDType(dtype: DType): boolean {
  return dtype === 'f32' || dtype === 'i32' || dtype === 'bool';
}

export function isLaneDType(dtype: DType): dtype is LaneDType {
  return dtype in laneBytes;
}

/** Throws BackendError for a dtype that no lane holds. */
export function laneDType(dtype: DType): LaneDType {
  if (isLaneDType(dtype)) return dtype;
  throw new BackendError({
    asked: 'a loop over elements',
    found: `dtype ${dtype}`,
    todo: 'Cast to f32 or i32 first',
  });
}

/** An op that computes each element from the elements at the same place. */
export type ElementwiseOp = Extract<
  ComputeOp,
  | ('neg' | 'abs' | 'sign' | 'exp' | 'log' | 'sqrt' | 'tanh' | 'erf' | 'floor' | 'ceil')
  | ('logicalNot' | 'cast' | 'add' | 'sub' | 'mul' | 'div' | 'pow' | 'maximum' | 'minimum')
  | ('equal' | 'less' | 'lessEqual' | 'logicalAnd' | 'logicalOr' | 'where')
  | ('sigmoid' | 'relu' | 'gelu' | 'geluGrad' | 'random')
>;

/** Which element of an operand belongs to element i of the loop. */
export type Access =
  /** Element i. */
  | { readonly kind: 'element' }
  /** The same element for every i. */
  | { readonly kind: 'scalar'; readonly elementOffset: number }
  /** Element i / columns, rounded down. */
  | { readonly kind: 'row'; readonly columns: number }
  /** Element i % columns. */
  | { readonly kind: 'column'; readonly columns: number };

export interface LoopLoad {
  readonly dtype: LaneDType;
  readonly access: Access['kind'];
  readonly elementOffset: number;
}

/** One value of the loop body. `inputs` are slots. The loads come first, and then the steps. */
export type LoopStep =
  | { readonly op: 'constant'; readonly dtype: LaneDType; readonly value: number }
  | { readonly op: 'copy'; readonly dtype: LaneDType; readonly inputs: readonly number[] }
  | {
      readonly op: ElementwiseOp;
      readonly dtype: LaneDType;
      readonly inputs: readonly number[];
      readonly inputDType: LaneDType;
      readonly approximate?: 'none' | 'tanh';
    };

/** The structure of a fused loop. Loops with the same structure share a kernel, whatever their sizes are. */
export interface LoopSpec {
  /** Whether an operand is accessed by row or column. */
  readonly byRows: boolean;
  readonly loads: readonly LoopLoad[];
  readonly steps: readonly LoopStep[];
  readonly stores: readonly { readonly slot: number; readonly dtype: LaneDType }[];
}

/**
 * How `expand` reads its input. Undefined if a loop over rows cannot read it, because dims in the middle are repeated.
 */
export function expandAccess(from: Shape, to: Shape): Access | undefined {
  if (from.every((dim, i) => dim === to[i])) return { kind: 'element' };
  if (elementCount(from) === 1) return { kind: 'scalar', elementOffset: 0 };
  const isKept = from.map((dim, i) => dim === to[i]);
  const firstRepeated = isKept.indexOf(false);
  const lastRepeated = isKept.lastIndexOf(false);
  const before = from.slice(0, firstRepeated);
  const after = from.slice(lastRepeated + 1);
  const between = from.slice(firstRepeated, lastRepeated + 1);
  if (elementCount(between) !== 1) return undefined;
  if (elementCount(before) === 1) return { kind: 'column', columns: elementCount(after) };
  if (elementCount(after) === 1) {
    return { kind: 'row', columns: elementCount(to.slice(firstRepeated)) };
  }
  return undefined;
}
