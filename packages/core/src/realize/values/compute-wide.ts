import { computeDType } from '../../base/dtype-kind.ts';
import { cast } from '../../graph/ops/elementwise.ts';
import { placeOf } from '../../graph/call-site.ts';
import { article } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { ops } from '../../graph/ops/ops.ts';
import { formatShape } from '../../base/shape.ts';
import type { DType } from '../../spec/dtype.ts';
import { DTypeError } from '../../spec/errors.ts';

/**
 * Computes an op on f16 or bf16 in f32, and one on u8 in i32, and casts its result back. These dtypes are for
 * storage and communication. `apply` makes the op. Throws DTypeError for a dtype that the device does not compute
 * with.
 */
export function computeWide(
  node: Node,
  inputs: readonly Node[],
  computed: ReadonlySet<DType>,
  apply: (inputs: readonly Node[]) => Node,
): Node {
  if (ops[node.op].dtypes === 'any') return apply(inputs);
  const wide = inputs.map((input) => cast(input, computeDType(input.dtype)));
  for (const { dtype, shape } of wide) {
    if (computed.has(dtype)) continue;
    throw new DTypeError(
      {
        asked: `${node.op}${placeOf(node.site)} of ${article(dtype)} ${dtype} tensor of shape ${formatShape(shape)}`,
        found: `this device computes with ${[...computed].join(', ')}`,
        todo: "Convert it first, for example with .to('f32')",
      },
      { op: node.op, dtype, computed: [...computed] },
    );
  }
  return cast(apply(wide), node.dtype);
}
