import { cast } from '../../graph/ops/elementwise.ts';
import { expandTo } from '../../graph/ops/movement.ts';
import { inputNode } from '../../graph/create-node.ts';
import { isOp, type Node } from '../../graph/node.ts';
import type { DType } from '../../spec/dtype.ts';
import type { Subgraph } from '../collect/collect.ts';

/** The constants of a subgraph whose numbers a plan takes as inputs, in program order. */
export function varyingConstants(
  { computed }: Subgraph,
  varying: Uint8Array,
): readonly Node<'constant'>[] {
  if (!varying.includes(1)) return [];
  return computed
    .filter((node) => isOp(node, 'constant'))
    .filter((_, index) => varying[index] === 1);
}

/** A leaf with the number of a constant. Shape: -> []. */
export function numberLeaf({ params: { value, dtype } }: Node<'constant'>): Node<'input'> {
  const { dtype: carried, bytes } = encode(value, dtype);
  return inputNode([], carried, { kind: 'host', bytes });
}

/** The replacement of a constant whose number is in a leaf. Shape: leaf [] -> that of the constant. */
export function constantOfLeaf(leaf: Node, { params: { shape, dtype } }: Node<'constant'>): Node {
  return expandTo(cast(leaf, dtype), shape);
}

/** The bytes of a number. 16-bit floats are encoded as f32, and the device's cast rounds them. */
function encode(value: number, dtype: DType): { dtype: DType; bytes: Uint8Array } {
  switch (dtype) {
    case 'f32':
    case 'f16':
    case 'bf16':
      return { dtype: 'f32', bytes: new Uint8Array(Float32Array.of(value).buffer) };
    case 'f64':
      return { dtype, bytes: new Uint8Array(Float64Array.of(value).buffer) };
    case 'i32':
      return { dtype, bytes: new Uint8Array(Int32Array.of(value).buffer) };
    case 'i64':
      return { dtype, bytes: new Uint8Array(BigInt64Array.of(BigInt(Math.trunc(value))).buffer) };
    case 'u8':
      return { dtype, bytes: Uint8Array.of(value) };
    case 'bool':
      return { dtype, bytes: Uint8Array.of(value === 0 ? 0 : 1) };
    default:
      return dtype satisfies never;
  }
}
