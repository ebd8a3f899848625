import type { ComputeOp, ComputeParams, DType, Shape } from '@shardwise/core/spec';

/** An input of an example: floats that vary over a range, or given elements. */
export interface ExampleInput {
  readonly shape: Shape;
  /** Floats have the dtype that a test computes with. */
  readonly dtype: 'float' | Extract<DType, 'i32' | 'u8' | 'bool'>;
  /** Elements that a test must not change, such as indices. Undefined: numbers of the range, which a test chooses. */
  readonly given?: readonly number[];
  readonly range: readonly [low: number, high: number];
}

/**
 * Parameters and small inputs of an op. The values are away from those at which the derivative jumps. Tests derive from
 * them that gradients are derivatives, in which inputs the op is linear, and how layouts go through it. An op has an
 * example for each way in which its entry branches.
 */
export interface OpExample<K extends ComputeOp> {
  readonly params: ComputeParams[K];
  readonly inputs: readonly ExampleInput[];
}

/** Floats. Default range: [-1, 1]. */
export function varied(
  shape: Shape,
  range: readonly [low: number, high: number] = [-1, 1],
): ExampleInput {
  return { shape, dtype: 'float', range };
}

/** Whole numbers, row by row. */
export function indices(shape: Shape, given: readonly number[]): ExampleInput {
  return { shape, dtype: 'i32', given, range: [0, 0] };
}

/** Bytes, row by row. */
export function bytes(shape: Shape, given: readonly number[]): ExampleInput {
  return { shape, dtype: 'u8', given, range: [0, 255] };
}

/** Bools as 0 and 1, row by row. */
export function flags(shape: Shape, given: readonly number[]): ExampleInput {
  return { shape, dtype: 'bool', given, range: [0, 1] };
}
