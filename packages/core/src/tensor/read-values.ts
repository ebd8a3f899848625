import { formatShape } from '../base/shape.ts';
import type { Node } from '../graph/node.ts';
import { hostBytes } from '../graph/ownership.ts';
import { currentSession } from '../rank.ts';
import { ShapeError } from '../spec/errors.ts';
import { dataOfRows } from './data-of-rows.ts';
import { fromBytes, type HostData, onlyElement } from './host-data.ts';

/** Returns the elements of a node, row by row. Computes it if necessary. */
export async function readValues(node: Node): Promise<HostData> {
  if (node.rowCount !== null) return dataOfRows(node, node.rowCount);
  const bytes =
    node.value?.kind === 'host' ? hostBytes(node.value) : await currentSession().fetch(node);
  return fromBytes(bytes, node.dtype);
}

/** Returns the value of a node of one element. Throws ShapeError for other sizes, and DTypeError for an i64 beyond 2^53. */
export async function readItem(
  { shape, dtype, numel }: Pick<Node, 'shape' | 'dtype'> & { readonly numel: number },
  read: () => Promise<HostData>,
): Promise<number> {
  if (numel === 1) return onlyElement(await read(), dtype);
  throw new ShapeError(
    {
      asked: `item() of a tensor of shape ${formatShape(shape)}`,
      found: `${numel} elements`,
      todo: 'Use data(), or reduce it',
    },
    { shape },
  );
}

/**
 * A promise that is not awaited becomes no text or number, as `[object Promise]`: it becomes what `toPrimitive` returns or
 * throws.
 */
export function toAwait<Value>(
  promise: Promise<Value>,
  toPrimitive: () => unknown,
): Promise<Value> {
  return Object.defineProperty(promise, Symbol.toPrimitive, { value: toPrimitive });
}
