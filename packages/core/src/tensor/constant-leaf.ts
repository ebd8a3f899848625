import { uniform } from '../graph/axis-types.ts';
import { inputNode } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';
import { elementCount } from '../base/shape.ts';
import { dtypes } from '../spec/dtype.ts';
import { fromBytes } from './host-data.ts';

/**
 * Makes a leaf with the contents of a constant, such as the result of `zeros`, so that it can be trained and updated in
 * place. Returns null for 16-bit floats, because only a device rounds to them. Shape: -> that of the constant.
 */
export function leafOfConstant({ params, axisTypes }: Node<'constant'>): Node | null {
  const { value, shape, dtype } = params;
  if (dtype === 'f16' || dtype === 'bf16') return null;
  const bytes = new Uint8Array(elementCount(shape) * dtypes[dtype].bytes);
  const data = fromBytes(bytes, dtype);
  if (data instanceof BigInt64Array) data.fill(BigInt(value));
  else data.fill(value);
  const leaf = inputNode(shape, dtype, { kind: 'host', bytes, owned: true });
  // `uniform` holds for the value of the constant. It says nothing about the values that the leaf will get later.
  leaf.axisTypes = axisTypes === uniform ? null : axisTypes;
  return leaf;
}
