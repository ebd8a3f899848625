import type { Instruction, Shape } from '@shardwise/core/spec';
import { countOf } from '../program/values.ts';

type Matmul = Extract<Instruction, { op: 'matmul' }>;

/** A result with more elements than this has enough groups of threads, one for each tile. */
const MAX_ELEMENTS = 2 ** 15;
/** The terms of a product are divided into at most `mostParts` parts of at least `partTerms` terms each. */
const PART_TERMS = 256;
const MAX_PARTS = 16;

export interface ProductRewriter {
  readonly shapeOf: (id: number) => Shape;
  /** Adds an instruction and returns the id of its result. */
  readonly add: (instruction: Instruction) => number;
}

/**
 * Replaces products for which tiles are slow. A product with a vector becomes a sum of products of elements, whose
 * terms are shared out among the threads of a group. A product of few elements and many terms becomes several products,
 * each of a part of the terms, whose results are added in pairs. The kernel that reads the product does these
 * additions, so there is at most one kernel more. Returns undefined for other products. The choice depends on shapes
 * only, so that a device gives the same bits each time.
 */
export function rewriteProduct(product: Matmul, rewriter: ProductRewriter): number | undefined {
  const [rows = 1, columns = 1] = product.shape.slice(-2);
  const [a = 0] = product.inputs;
  const terms = rewriter.shapeOf(a).at(product.params.transposeA ? -2 : -1) ?? 0;
  if (terms < 2) return undefined;
  if (rows === 1 || columns === 1) return asSum(product, terms, rewriter);
  const parts = partsOf(countOf(product.shape), terms);
  return parts === 1 ? undefined : inParts(product, { terms, parts }, rewriter);
}

/** The number of parts, each of which has equally many terms. */
function partsOf(elements: number, terms: number): number {
  if (elements > MAX_ELEMENTS) return 1;
  let parts = Math.min(MAX_PARTS, Math.floor(terms / PART_TERMS));
  while (parts > 1 && terms % parts !== 0) parts--;
  return Math.max(1, parts);
}

function asSum(product: Matmul, terms: number, { shapeOf, add }: ProductRewriter): number {
  const { dtype, shape } = product;
  const { transposeA, transposeB } = product.params;
  const [a = 0, b = 0] = product.inputs;
  const [rows = 1, columns = 1] = shape.slice(-2);
  const batch = shape.slice(0, -2);
  const isRow = rows === 1;
  const matrix = isRow ? b : a;
  const vector = isRow ? a : b;
  const size = isRow ? columns : rows;
  const termsAreLast = isRow ? transposeB : !transposeA;
  const batchOf = (id: number): Shape => {
    const own = shapeOf(id).slice(0, -2);
    return [...batch.slice(own.length).map(() => 1), ...own];
  };
  const view = (id: number, own: Shape, whole: Shape): number => {
    const reshaped = add({
      op: 'reshape',
      params: { shape: own },
      inputs: [id],
      shape: own,
      dtype,
    });
    const params = { shape: whole };
    return add({ op: 'expand', params, inputs: [reshaped], shape: whole, dtype });
  };
  const last = (outer: number): Shape => (termsAreLast ? [outer, terms] : [terms, outer]);
  const whole = [...batch, ...last(size)];
  const inputs = [
    view(matrix, [...batchOf(matrix), ...last(size)], whole),
    view(vector, [...batchOf(vector), ...last(1)], whole),
  ];
  const products = add({ op: 'mul', params: {}, inputs, shape: whole, dtype });
  const dims = [batch.length + (termsAreLast ? 1 : 0)];
  const sums = [...batch, size];
  const sum = add({ op: 'sum', params: { dims }, inputs: [products], shape: sums, dtype });
  return add({ op: 'reshape', params: { shape }, inputs: [sum], shape, dtype });
}

function inParts(
  product: Matmul,
  { terms, parts }: { readonly terms: number; readonly parts: number },
  { shapeOf, add }: ProductRewriter,
): number | undefined {
  const { dtype, shape } = product;
  const [rows = 1, columns = 1] = shape.slice(-2);
  if (countOf(shape) !== rows * columns) return undefined;
  const [a = 0, b = 0] = product.inputs;
  const reshape = (id: number, to: Shape): number =>
    add({ op: 'reshape', params: { shape: to }, inputs: [id], shape: to, dtype });
  const each = terms / parts;
  /**
   * Divides the terms of an operand into parts.
   * Shape: [size, terms] -> [parts, size, each], and [terms, size] -> [parts, each, size].
   */
  const divided = (id: number, termsAreLast: boolean): number => {
    const size = countOf(shapeOf(id)) / terms;
    if (!termsAreLast) return reshape(id, [parts, each, size]);
    const apart = reshape(id, [size, parts, each]);
    const order = [1, 0, 2];
    const moved = [parts, size, each];
    return add({ op: 'permute', params: { order }, inputs: [apart], shape: moved, dtype });
  };
  const { transposeA, transposeB } = product.params;
  const inputs = [divided(a, !transposeA), divided(b, transposeB)];
  const whole = [parts, rows, columns];
  const sums = add({ ...product, inputs, shape: whole });
  let left = Array.from({ length: parts }, (_, part) => {
    const own = [1, rows, columns];
    const params = { starts: [part, 0, 0], stops: [part + 1, rows, columns], steps: [1, 1, 1] };
    const slice = add({ op: 'slice', params, inputs: [sums], shape: own, dtype });
    return reshape(slice, shape);
  });
  while (left.length > 1) {
    left = Array.from({ length: Math.ceil(left.length / 2) }, (_, pair) => {
      const [x = 0, y] = left.slice(2 * pair, 2 * pair + 2);
      return y === undefined ? x : add({ op: 'add', params: {}, inputs: [x, y], shape, dtype });
    });
  }
  return left[0];
}
