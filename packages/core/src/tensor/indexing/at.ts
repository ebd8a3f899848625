import { indexSelect } from '../../graph/build/index-ops.ts';
import { permute, reshape, sliceDim } from '../../graph/build/movement.ts';
import { CallSite } from '../../graph/call-site.ts';
import type { Node } from '../../graph/node.ts';
import { elementCount, formatShape, sizeAt } from '../../shape.ts';
import { describeValue } from '../../spec/describe-value.ts';
import { ShapeError } from '../../spec/errors.ts';
import { requireElementAt } from '../check-arguments.ts';
import { TensorHandle } from '../handle.ts';
import { linearIndex } from './linear-index.ts';
import { rowsWhere } from './rows.ts';
import { Slice } from './slice.ts';

/**
 * What stands between the brackets of Python's x[…]: an element of a dim, a slice(start, stop, step), ':' for all of a
 * dim, '...' for all dims that are not named, null for a new dim of size 1, or an i32 tensor of elements. A mask of bools
 * stands alone.
 */
export type Index = number | Slice | ':' | '...' | null | TensorHandle;

/** x[items] of PyTorch. Shape: N -> by the items. */
export function at(x: Node, items: readonly Index[]): Node {
  const mask = onlyMask(items);
  if (mask !== null) return rowsWhere(x, mask);
  const found: { readonly dim: number; readonly index: Node }[] = [];
  let result = x;
  let dim = 0;
  for (const item of withoutEllipsis(x, items)) {
    if (item === null) {
      result = reshape(result, result.shape.toSpliced(dim, 0, 1));
      dim++;
    } else if (typeof item === 'number') {
      const element = requireElementAt(result.shape, dim, item, sizeAt(result.shape, dim));
      const kept = sliceDim(result, dim, element, element + 1);
      result = reshape(kept, kept.shape.toSpliced(dim, 1));
    } else {
      if (item instanceof TensorHandle) found.push({ dim, index: item.node });
      else if (item instanceof Slice) result = sliced(result, dim, item);
      dim++;
    }
  }
  return found.length === 0 ? result : byTensors(result, found);
}

/** The mask that stands alone, or is followed by all of the rest. */
function onlyMask([first, ...rest]: readonly Index[]): Node | null {
  const isAlone = rest.every((item) => item === ':' || item === '...');
  return first instanceof TensorHandle && first.dtype === 'bool' && isAlone ? first.node : null;
}

function sliced(x: Node, dim: number, slice: Slice): Node {
  const { start, stop, step } = slice.of(sizeAt(x.shape, dim));
  return sliceDim(x, dim, start, stop, step);
}

/** The indexed dims become one in front, whose rows are taken; where they were neighbours, it stays in their place. */
function byTensors(
  x: Node,
  found: readonly { readonly dim: number; readonly index: Node }[],
): Node {
  const indexed = found.map(({ dim }) => dim);
  const others = [...x.shape.keys()].filter((dim) => !indexed.includes(dim));
  const sizes = indexed.map((dim) => sizeAt(x.shape, dim));
  const rest = others.map((dim) => sizeAt(x.shape, dim));
  const indices = found.map(({ index }) => index);
  const { index, shape } = linearIndex('at', indices, sizes);
  const rows = reshape(permute(x, [...indexed, ...others]), [elementCount(sizes), ...rest]);
  const taken = indexSelect(rows, 0, index, new CallSite('at'));
  const result = reshape(taken, [...shape, ...rest]);
  const [first = 0] = indexed;
  const isTogether = indexed.every((dim, i) => dim === first + i);
  if (!isTogether || first === 0) return result;
  const own = [...shape.keys()];
  const behind = [...rest.keys()].map((dim) => dim + shape.length);
  return permute(result, [...behind.slice(0, first), ...own, ...behind.slice(first)]);
}

/** One item for each dim, and those that make dims. */
function withoutEllipsis(x: Node, items: readonly Index[]): Exclude<Index, '...'>[] {
  items.forEach((item) => requireIndex(item));
  const named = items.filter((item) => item !== null && item !== '...').length;
  const ellipses = items.filter((item) => item === '...').length;
  const missing = x.shape.length - named;
  if (missing < 0 || ellipses > 1) {
    throw new ShapeError(
      {
        asked: `at(${items.map(formatIndex).join(', ')}) of shape ${formatShape(x.shape)}`,
        found:
          ellipses > 1 ? `${ellipses} times '...'` : `${named} items for ${x.shape.length} dims`,
        todo: ellipses > 1 ? "Write '...' once" : 'Give at most one item for each dim',
      },
      { shape: x.shape },
    );
  }
  const all: ':'[] = Array.from({ length: missing }, () => ':');
  const full = ellipses === 0 ? [...items, ...all] : items;
  return full.flatMap((item) => (item === '...' ? all : [item]));
}

function requireIndex(item: unknown): void {
  if (item === null || item === ':' || item === '...' || typeof item === 'number') return;
  if (item instanceof Slice || item instanceof TensorHandle) return;
  throw new ShapeError(
    {
      asked: `at with ${describeValue(item)}`,
      found: "neither a number, a slice, ':', '...', null nor a tensor",
      todo: "Write slice(0, 2) for elements 0 and 1, and tensor([0, 2], 'i32') for elements 0 and 2",
    },
    {},
  );
}

function formatIndex(item: Index): string {
  if (item instanceof TensorHandle) return `a tensor of shape ${formatShape(item.shape)}`;
  return typeof item === 'string' ? `'${item}'` : String(item);
}
