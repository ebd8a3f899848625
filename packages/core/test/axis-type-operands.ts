import { inputNode } from '../src/graph/create-node.ts';
import type { Node } from '../src/graph/node.ts';
import type { DType, Shape } from '../src/spec/dtype.ts';
import type { AxisParams, AxisType } from '../src/spec/op.ts';
import { declareAxisTypes } from '../src/tensor/declare-axis-types.ts';
import { type HostData, toBytes } from '../src/tensor/host-data.ts';
import { Tensor } from '../src/tensor/tensor.ts';

export const axis = { axis: 'tp', size: 2, rank: 0 } as const satisfies AxisParams;

/** The letters of types in patterns. Any other letter stands for a value without a known type. */
export const letters = {
  r: 'replicate',
  i: 'invariant',
  v: 'varying',
  p: 'partial',
} as const satisfies Readonly<Record<string, AxisType>>;

export type Letter = keyof typeof letters;

export function isLetter(letter: string): letter is Letter {
  return letter in letters;
}

export interface Operand {
  readonly shape: Shape;
  readonly dtype: DType;
}

export const floats = (...shape: number[]): Operand => ({ shape, dtype: 'f32' });
export const integers = (...shape: number[]): Operand => ({ shape, dtype: 'i32' });

/** A leaf, which trains if its dtype is f32. Without `data`, its elements are zeros. */
export function operand(
  { shape, dtype }: Operand,
  type: AxisType | null,
  { trains = true, data }: { trains?: boolean; data?: HostData } = {},
): Node {
  const length = shape.reduce((count, size) => count * size, 1);
  const bytes = data === undefined ? new Uint8Array(length * 4) : toBytes(data);
  const node = inputNode(shape, dtype, { kind: 'host', bytes }, trains && dtype === 'f32');
  if (type !== null) declareAxisTypes(new Tensor(node), { tp: type });
  return node;
}

export function typeOf(node: Node): string | null {
  return node.axisTypes?.on('tp') ?? null;
}
