import type { ComputeOp, Shape, ValueType } from '@shardwise/core/spec';
import type { Tolerance } from '../../compare/allclose.ts';
import type { NdArray } from '../../interpreter/nd-array.ts';
import type { Operation } from './program-builder.ts';

/** A test of one op on given inputs. */
export interface OpCase {
  readonly title: string;
  readonly operation: Operation;
  readonly inputs: readonly NdArray[];
  /** The result in closed form. If it is only a type, the interpreter computes the result. */
  readonly expected: NdArray | ValueType;
  /** Default: the result must be exact. */
  readonly tolerance?: Tolerance;
}

/**
 * The cases of every op of a group. They are made when they are asked for, because computing their closed forms takes
 * most of a second, and every rank of a test loads this package.
 */
export type OpCases<K extends ComputeOp> = { readonly [P in K]: () => readonly OpCase[] };

export function label(shape: Shape): string {
  return `[${shape.join(', ')}]`;
}

/** Shapes of a scalar, of size 1, empty, odd, and long enough for whole vectors with a tail. */
export const SHAPES: readonly Shape[] = [[], [1], [0], [3, 0, 2], [7], [3, 1, 5], [2, 515]];
