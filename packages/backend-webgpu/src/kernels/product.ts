import type { Instruction, Shape } from '@shardwise/core/spec';
import type { Emitter } from '../emit/emitter.ts';
import { inputAt, type Values } from '../program/values.ts';
import { storageOf } from '../wgsl/registers.ts';
import type { ProductTile } from './product-tile.ts';

export type MatmulInstruction = Extract<Instruction, { op: 'matmul' }>;

/**
 * An operand of a product. Its rows (or its columns, on the right) lie in the result, and the sum runs along its other
 * dim.
 */
export interface Operand {
  readonly id: number;
  readonly name: 'left' | 'right';
  /** The number of elements along the dim that lies in the result. */
  readonly size: number;
  /** Whether elements along the sum lie next to each other in memory. */
  readonly depthIsLast: boolean;
  /** The f16 value from which the operand is cast, if the device can hold f16 in workgroup memory. */
  readonly half: number | undefined;
  /** The elements of the tile along the dim that lies in the result. */
  readonly tile: number;
}

export interface Product {
  readonly values: Values;
  readonly instruction: MatmulInstruction;
  readonly operands: readonly [Operand, Operand];
  /** The number of terms of an element. */
  readonly depth: number;
  readonly tile: ProductTile;
  /** The elements of a vector. */
  readonly lanes: 1 | 4;
}

/** The f16 value from which a value is cast. */
export function halfOf(values: Values, id: number): number | undefined {
  const instruction = values.instruction(id);
  if (instruction?.op !== 'cast') return undefined;
  const source = inputAt(instruction, 0);
  return values.type(source).dtype === 'f16' ? source : undefined;
}

/** The type of a vector of a product. */
export function vectorType({ lanes, instruction }: Product, element?: 'f16'): string {
  const type = element ?? storageOf[instruction.dtype].register;
  return lanes === 1 ? type : `vec4<${type}>`;
}

/** A vector of these elements. */
export function vectorOf(product: Product, elements: readonly string[]): string {
  return product.lanes === 1
    ? (elements[0] ?? '')
    : `${vectorType(product)}(${elements.join(', ')})`;
}

/** The element of a vector, by its number. */
export function laneOf({ lanes }: Product, vector: string, lane: number): string {
  return lanes === 1 ? vector : `${vector}.${'xyzw'[lane] ?? 'x'}`;
}

/** Reads an element of an operand. Its terms are along `inner`. */
export function readElement(
  scope: Emitter,
  { values, instruction }: Product,
  { id, half, depthIsLast }: Operand,
  {
    outer,
    inner,
    inside,
  }: { readonly outer: string; readonly inner: string; readonly inside?: string | undefined },
): string {
  const dims = [
    ...batchDims(scope, values.shape(id), instruction.shape),
    ...(depthIsLast ? [outer, inner] : [inner, outer]),
  ];
  const read = scope.value(half ?? id, { dims });
  const orZero = (zero: string): string =>
    inside === undefined ? read : `select(${zero}, ${read}, ${inside})`;
  if (half !== undefined) return `f32(bitcast<vec2<f16>>(${orZero('0u')}).x)`;
  return orZero(`${storageOf[instruction.dtype].register}(0)`);
}

/** The index of an operand's matrix in its batch. Several matrices of the result may use the same one. */
function batchDims(emitter: Emitter, operand: Shape, result: Shape): readonly string[] {
  const batch = result.slice(0, -2);
  const sizes = operand.slice(0, -2);
  const own = emitter.dims({ linear: 'group.z' }, batch).slice(batch.length - sizes.length);
  return own.map((at, dim) => (sizes[dim] === 1 ? '0u' : at));
}
