import { add, scale } from '../../graph/ops/elementwise.ts';
import { indexSelect } from '../../graph/ops/index-ops.ts';
import { permute, reshape, sliceDim } from '../../graph/ops/movement.ts';
import { CallSite } from '../../graph/call-site.ts';
import type { Node } from '../../graph/node.ts';
import { shapeFault } from '../../graph/infer-checks.ts';
import { elementCount, formatShape, sameShape, sizeAt } from '../../base/shape.ts';
import { describeValue, ShapeError } from '../../spec/errors.ts';
import { requireElementAt } from '../check-arguments.ts';
import { TensorHandle } from '../handle.ts';
import { linearIndex } from './linear-index.ts';
import { truePlaces } from './rows.ts';
import { Slice } from './slice.ts';

/**
 * An item of an index, like those between the brackets of Python's x[…]:
 * - a number takes one element of a dim, and the dim disappears;
 * - slice(start, stop, step) takes a range of a dim, and ':' all of it;
 * - '...' stands for all dims that have no item;
 * - null adds a dim of size 1;
 * - an i32 tensor takes the elements at its indices;
 * - a mask of bools stands for as many dims as it has, and takes the elements where it is true.
 */
export type Index = number | Slice | ':' | '...' | null | TensorHandle;

/** x[items] of PyTorch. The items determine the shape. */
export function at(x: Node, items: readonly Index[]): Node {
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
      if (item instanceof TensorHandle && item.dtype === 'bool') {
        result = mergedDims(result, dim, item);
        found.push({ dim, index: truePlaces(reshape(item.node, [elementCount(item.shape)])) });
      } else if (item instanceof TensorHandle) found.push({ dim, index: item.node });
      else if (item instanceof Slice) result = sliced(result, dim, item);
      dim++;
    }
  }
  return found.length === 0 ? result : byTensors(result, found);
}

/**
 * Merges the dims that a mask stands for, which begin at `dim`, into one. Shape: x [.., A.., R..], mask [A..] -> [.., A
 * elements, R..].
 */
function mergedDims(x: Node, dim: number, mask: TensorHandle): Node {
  const { shape, ndim } = mask;
  const isFit = ndim > 0 && sameShape(x.shape.slice(dim, dim + ndim), shape);
  if (isFit) return reshape(x, x.shape.toSpliced(dim, ndim, elementCount(shape)));
  throw shapeFault(
    'at by a mask',
    [x, mask],
    `sizes that differ from dim ${dim} on`,
    'Use a mask of the shape of the tensor, or of the dims in whose place it stands',
  );
}

function sliced(x: Node, dim: number, slice: Slice): Node {
  const { start, stop, step } = slice.of(sizeAt(x.shape, dim));
  return sliceDim(x, dim, start, stop, step);
}

/**
 * Indexes by tensors: the indexed dims are merged into one dim in front, and rows of it are taken. If the indexed dims
 * were neighbours, the dims of the result are moved back to their place.
 */
function byTensors(
  x: Node,
  found: readonly { readonly dim: number; readonly index: Node }[],
): Node {
  const indexed = found.map(({ dim }) => dim);
  const others = [...x.shape.keys()].filter((dim) => !indexed.includes(dim));
  const sizes = indexed.map((dim) => sizeAt(x.shape, dim));
  const rest = others.map((dim) => sizeAt(x.shape, dim));
  requireKnownPlace(x, found);
  const counted = found.find(({ index }) => isCountedInRun(index))?.index;
  const indices = found.map(({ index }) => {
    if (counted === undefined || index === counted) return index;
    // The sum has one element for each row that the run counts. An expand would have to know the number of rows.
    return add(scale(counted, 0), reshape(index, [1]));
  });
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

/**
 * Throws ShapeError for indices that a mask cannot be combined with. Only the run counts the true elements of a mask,
 * so they must become dim 0, and they cannot be broadcast with several elements of another index.
 */
function requireKnownPlace(
  x: Node,
  found: readonly { readonly dim: number; readonly index: Node }[],
): void {
  if (!found.some(({ index }) => isCountedInRun(index))) return;
  const others = found.filter(({ index }) => !isCountedInRun(index));
  const several = others.find(
    ({ index }) => index.shape.length > 1 || elementCount(index.shape) !== 1,
  );
  const [first = 0, ...rest] = found.map(({ dim }) => dim);
  const isTogether = rest.every((dim, i) => dim === first + i + 1);
  if (found.length - others.length > 1 || several !== undefined) {
    throw shapeFault(
      'at by a mask',
      [x],
      'several elements of another index for the true elements of a mask, which only the run counts',
      'Make one mask of both, or take the elements of one after the other: x.at(mask).at(...)',
    );
  }
  if (first === 0 || !isTogether) return;
  throw shapeFault(
    'at by a mask',
    [x],
    `a mask of dim ${first}: only the run knows the size of that dim of the result, which can be dim 0 alone`,
    'Move the dims of the mask to the front: x.movedim(1, 0).at(mask)',
  );
}

function isCountedInRun({ shape }: Node): boolean {
  return Number.isNaN(shape[0]);
}

/**
 * Replaces '...', and dims without an item at the end, by ':'. The result has an item for each dim, and the items that
 * add dims.
 */
function withoutEllipsis(x: Node, items: readonly Index[]): Exclude<Index, '...'>[] {
  items.forEach((item) => requireIndex(item));
  const named = items.reduce<number>((count, item) => count + dimsOf(item), 0);
  const ellipses = items.filter((item) => item === '...').length;
  const missing = x.shape.length - named;
  if (missing < 0 || ellipses > 1) {
    throw new ShapeError(
      {
        asked: `at(${items.map(formatIndex).join(', ')}) of shape ${formatShape(x.shape)}`,
        found:
          ellipses > 1 ? `${ellipses} times '...'` : `items for ${named} dims of ${x.shape.length}`,
        todo: ellipses > 1 ? "Write '...' once" : 'Give at most one item for each dim',
      },
      { shape: x.shape },
    );
  }
  const all: ':'[] = Array.from({ length: missing }, () => ':');
  const full = ellipses === 0 ? [...items, ...all] : items;
  return full.flatMap((item) => (item === '...' ? all : [item]));
}

/** Returns the number of the tensor's dims that an item stands for. */
function dimsOf(item: Index): number {
  if (item === null || item === '...') return 0;
  return item instanceof TensorHandle && item.dtype === 'bool' ? item.ndim : 1;
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
