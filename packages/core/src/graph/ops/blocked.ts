import type { GgufBlockFormat, OpParams } from '../../spec/op.ts';
import type { ValueType } from '../../spec/dtype.ts';
import { createNode } from '../create-node.ts';
import { at, requireDType, shapeFault } from '../infer-checks.ts';
import type { Node } from '../node.ts';
import { type CompositeEntries, product } from '../op-entry.ts';
import { matmul } from './contract.ts';
import { cast } from './elementwise.ts';
import { reshape } from './movement.ts';

/** A format with the operations that decode it. Only the plain data of the format are part of a program's structure. */
export class BlockCodec implements GgufBlockFormat {
  readonly name: GgufBlockFormat['name'];
  readonly elements: number;
  readonly bytes: number;
  readonly #decode: (bytes: Node) => Node;

  /** Shape of `decode`: u8 [blocks, bytes] -> f32 [blocks, elements]. */
  constructor({ name, elements, bytes }: GgufBlockFormat, decode: (bytes: Node) => Node) {
    this.name = name;
    this.elements = elements;
    this.bytes = bytes;
    this.#decode = decode;
  }

  /** Shape: u8 [O, blocks of a row * bytes] -> f32 [O, K]. */
  rowsOf(weight: Node): Node {
    const [rows = 0, rowBytes = 0] = weight.shape;
    const { elements, bytes } = this;
    const blocks = rowBytes / bytes;
    const decoded = this.#decode(reshape(weight, [rows * blocks, bytes]));
    return reshape(decoded, [rows, blocks * elements]);
  }
}

/** Products with a weight in blocks. Autocast does not change the rows: the caller says what they are multiplied in. */
export const blockedOps: CompositeEntries<'blockedLinear'> = {
  blockedLinear: {
    ...product,
    by: 'composite',
    dtypes: 'any',
    linearIn: [[0]],
    autocast: 'asGiven',
    dims: 'none',
    infer: blockedShape,
    decompose: (params, x, weight) => matmul(x, rowsIn(x, params, weight), false, true),
    // The weight is decoded again, so that nothing of it is kept for the backward pass.
    gradient: ({ params }, gy, _, __, weight) => [matmul(gy, rowsIn(gy, params, weight)), null],
  },
};

function rowsIn({ dtype }: Node, { format }: OpParams['blockedLinear'], weight: Node): Node {
  if (!(format instanceof BlockCodec)) throw new TypeError(`${format.name} without its decoder`);
  return cast(format.rowsOf(weight), dtype);
}

function blockedShape(
  { format: { name, elements, bytes } }: OpParams['blockedLinear'],
  inputs: readonly ValueType[],
): ValueType {
  const [x, weight] = [at(inputs, 0), at(inputs, 1)];
  requireDType('blockedLinear', x, ['f32', 'f64']);
  requireDType('blockedLinear', weight, ['u8']);
  const [rows = 0, depth = 0] = x.shape;
  const [columns = 0, rowBytes = 0] = weight.shape;
  const fits = x.shape.length === 2 && weight.shape.length === 2;
  if (!fits || rowBytes * elements !== depth * bytes || depth % elements !== 0) {
    throw shapeFault(
      'blockedLinear',
      inputs,
      `rows that do not fit blocks of ${bytes} bytes for ${elements} elements (${name})`,
      'Use x [N, K] and bytes [O, K / elements * bytes]',
    );
  }
  return { shape: [rows, columns], dtype: x.dtype };
}

/** Shape: x [N, K], weight u8 [O, bytes of a row] -> [N, O]. */
export function blockedLinear(x: Node, weight: Node, format: BlockCodec): Node {
  return createNode(blockedOps.blockedLinear, 'blockedLinear', { format }, [x, weight]);
}
