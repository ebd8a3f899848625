import { matmul } from '../../graph/ops/contract.ts';
import { indexSelect } from '../../graph/ops/index-ops.ts';
import { iota } from '../../graph/ops/leaf.ts';
import { scale } from '../../graph/ops/elementwise.ts';
import { expandTo, permute, reshape, sum } from '../../graph/ops/movement.ts';
import { lowered } from '../../graph/ops/precision.ts';
import { floats, requireDType, requireSameDType } from '../../graph/infer-checks.ts';
import type { Node } from '../../graph/node.ts';
import { elementCount, sizeAt } from '../../base/shape.ts';
import { ShapeError } from '../../spec/errors.ts';
import { requireTensors } from '../check-arguments.ts';
import { Tensor } from '../tensor.ts';
import { type EinsumEquation, parseEinsum } from './einsum-equation.ts';

/** A tensor whose dims have labels. */
interface Labelled {
  readonly node: Node;
  readonly labels: readonly string[];
}

/**
 * torch.einsum: multiplies elements with equal letters, and sums over the letters that the result does not have.
 * Operands are multiplied from left to right, each time as one matmul. Throws ShapeError for an equation that does not
 * fit the shapes.
 * Shape: 'bij,bjk->bik' of [B, I, J], [B, J, K] -> [B, I, K].
 */
export function einsum(equation: string, ...operands: readonly Tensor[]): Tensor {
  requireTensors('einsum', Object.fromEntries(operands.entries()));
  if (operands.length === 0) {
    throw new ShapeError({
      asked: `einsum '${equation}'`,
      found: 'no tensors',
      todo: 'Give them behind the equation',
    });
  }
  const nodes = operands.map(({ node }) => lowered(node));
  for (const node of nodes) requireDType('einsum', node, floats);
  requireSameDType('einsum', nodes);
  const parsed = parseEinsum(
    equation,
    nodes.map(({ shape }) => shape),
  );
  return new Tensor(contracted(parsed, nodes));
}

function contracted({ operands, output, sizes }: EinsumEquation, nodes: readonly Node[]): Node {
  const parts = nodes.map((node, i) => diagonalOf({ node, labels: operands[i] ?? [] }, sizes));
  const later = (i: number): Set<string> =>
    new Set([...output, ...parts.slice(i + 1).flatMap(({ labels }) => labels)]);
  const product = parts.reduce((left, right, i) => pairProduct(left, right, later(i), sizes));
  const kept = summed(product, new Set(output));
  return permute(
    kept.node,
    output.map((label) => kept.labels.indexOf(label)),
  );
}

/** Takes the diagonal of dims with the same label. A dim of size 1 is first expanded to the size of the label. */
function diagonalOf({ node, labels }: Labelled, sizes: ReadonlyMap<string, number>): Labelled {
  const twice = labels.find((label, dim) => labels.indexOf(label) !== dim);
  if (twice === undefined) return { node, labels };
  const dims = [labels.indexOf(twice), labels.lastIndexOf(twice)];
  const size = sizes.get(twice) ?? 1;
  const full = expandTo(
    node,
    node.shape.map((own, dim) => (dims.includes(dim) ? size : own)),
  );
  const others = [...labels.keys()].filter((dim) => !dims.includes(dim));
  const rest = others.map((dim) => sizeAt(node.shape, dim));
  const square = reshape(permute(full, [...dims, ...others]), [size * size, ...rest]);
  const diagonal = indexSelect(square, 0, scale(iota([size], 0), size + 1), null);
  const found = { node: diagonal, labels: [twice, ...others.map((dim) => labels[dim] ?? '')] };
  return diagonalOf(found, sizes);
}

/** Sums over the labels that are not needed any more. */
function summed({ node, labels }: Labelled, needed: ReadonlySet<string>): Labelled {
  const dims = [...labels.keys()].filter((dim) => !needed.has(labels[dim] ?? ''));
  return { node: sum(node, dims), labels: labels.filter((label) => needed.has(label)) };
}

/**
 * The labels that both operands have with the same size. Any other label is summed in its own operand before the
 * product, unless it is needed later.
 */
function meetingLabels(a: Labelled, b: Labelled): readonly string[] {
  const sizeIn = ({ node, labels }: Labelled, label: string): number | undefined =>
    node.shape[labels.indexOf(label)];
  return a.labels.filter((label) => sizeIn(a, label) === sizeIn(b, label));
}

/**
 * Multiplies two operands as one matmul. Shape: [batch, left, inner], [batch, inner, right] -> [batch, left, right].
 * Each of batch, left, inner and right can stand for several labels.
 */
function pairProduct(
  a: Labelled,
  b: Labelled,
  needed: ReadonlySet<string>,
  sizes: ReadonlyMap<string, number>,
): Labelled {
  const kept = new Set([...needed, ...meetingLabels(a, b)]);
  const [left, right] = [summed(a, kept), summed(b, kept)];
  const shared = left.labels.filter((label) => right.labels.includes(label));
  const batch = shared.filter((label) => needed.has(label));
  const inner = shared.filter((label) => !needed.has(label));
  const own = ({ labels }: Labelled): string[] => labels.filter((label) => !shared.includes(label));
  const [rows, columns] = [own(left), own(right)];
  const sizesOf = (labels: readonly string[]): number[] =>
    labels.map((label) => sizes.get(label) ?? 1);
  const matrices = (
    { node, labels }: Labelled,
    ...groups: readonly (readonly string[])[]
  ): Node => {
    const order = groups.flat();
    const placed = permute(
      node,
      order.map((label) => labels.indexOf(label)),
    );
    const full = expandTo(placed, sizesOf(order));
    return reshape(
      full,
      groups.map((group) => elementCount(sizesOf(group))),
    );
  };
  const product = matmul(
    matrices(left, batch, rows, inner),
    matrices(right, batch, inner, columns),
  );
  const labels = [...batch, ...rows, ...columns];
  return { node: reshape(product, sizesOf(labels)), labels };
}
