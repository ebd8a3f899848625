import type { ValueType } from '../../spec/dtype.ts';
import type { GgufBlockFormat } from '../../spec/gguf-blocks.ts';
import type { OpParams } from '../../spec/op.ts';
import { currentEra, setEra } from '../create-node.ts';
import type { Node } from '../node.ts';
import { type CompositeEntries, product } from '../op-entry.ts';

/**
 * A format, and what the op does with weights in it. Formats are values that models bring along, so that programs without
 * such weights do not load them. Only the plain data of a format are part of a program's structure.
 */
export abstract class BlockCodec implements GgufBlockFormat {
  abstract readonly name: GgufBlockFormat['name'];
  abstract readonly elements: number;
  abstract readonly bytes: number;
  /** Throws ShapeError or DTypeError for rows and a weight that the op does not take. */
  abstract infer(inputs: readonly ValueType[]): ValueType;
  /** The product with the weight in the dtype of x. Shape: x [N, K], weight -> [N, O]. With `forward` false, x is [N, O]. */
  abstract multiply(x: Node, weight: Node, forward: boolean): Node;
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
    infer: (params, inputs) => codecIn(params).infer(inputs),
    decompose: (params, x, weight) => codecIn(params).multiply(x, weight, true),
    gradient: ({ params }, gy, _, __, weight) => {
      // What the forward pass has decoded, in its own era, would be the same value, and kept until here.
      setEra(currentEra() + 1);
      return [codecIn(params).multiply(gy, weight, false), null];
    },
  },
};

function codecIn({ format }: OpParams['blockedLinear']): BlockCodec {
  if (format instanceof BlockCodec) return format;
  throw new TypeError(`${format.name} without code`);
}
