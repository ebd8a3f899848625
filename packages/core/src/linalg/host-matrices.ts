import { inputNode, isGradEnabled } from '../graph/create-node.ts';
import { requireDType, shapeFault } from '../graph/infer-checks.ts';
import type { Node, OwnGradient } from '../graph/node.ts';
import { elementCount, formatShape } from '../base/shape.ts';
import type { Shape } from '../spec/dtype.ts';
import { TensorStateError } from '../spec/errors.ts';
import { requireTensors } from '../tensor/check-arguments.ts';
import { toBytes } from '../tensor/host-data.ts';
import { withOwnGradient } from '../tensor/own-gradient.ts';
import { Tensor } from '../tensor/tensor.ts';

/** A matrix on the host. Its values are f64, row by row. */
export interface HostMatrix {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float64Array;
}

export function hostMatrix(rows: number, columns: number): HostMatrix {
  return { rows, columns, values: new Float64Array(rows * columns) };
}

export function identity(size: number): HostMatrix {
  const matrix = hostMatrix(size, size);
  for (let i = 0; i < size; i++) matrix.values[i * size + i] = 1;
  return matrix;
}

/** The element at a row and a column that must exist. */
export function element({ values, columns }: HostMatrix, row: number, column: number): number {
  return values[row * columns + column] ?? Number.NaN;
}

export function transposed({ rows, columns, values }: HostMatrix): HostMatrix {
  const result = hostMatrix(columns, rows);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      result.values[column * rows + row] = values[row * columns + column] ?? 0;
    }
  }
  return result;
}

/** Reads the matrices of a tensor f32 [.., rows, columns], and computes it if needed. Throws ShapeError, DTypeError. */
export async function readMatrices(op: string, x: Tensor): Promise<HostMatrix[]> {
  requireTensors(op, { x });
  requireDType(op, x, ['f32']);
  const [rows, columns] = x.shape.slice(-2);
  if (rows === undefined || columns === undefined) {
    throw shapeFault(op, [x], `${x.ndim} dims`, 'Use a matrix, or matrices behind batch dims');
  }
  const data = await x.data();
  const size = rows * columns;
  return Array.from({ length: elementCount(x.shape.slice(0, -2)) }, (_, i) => ({
    rows,
    columns,
    values: Float64Array.from(data.slice(i * size, (i + 1) * size), Number),
  }));
}

/** A leaf with the elements of matrices, each rounded once to f32. Shape: -> shape. */
export function leafOf(matrices: readonly HostMatrix[], shape: Shape): Node {
  const values = new Float32Array(elementCount(shape));
  let next = 0;
  for (const matrix of matrices) {
    values.set(matrix.values, next);
    next += matrix.values.length;
  }
  return inputNode(shape, 'f32', { kind: 'host', bytes: toBytes(values) });
}

/** A tensor that the host computed from others, with its gradient. Throws TensorStateError for second derivatives. */
export function ofHost(
  op: string,
  inputs: readonly Tensor[],
  value: Node,
  gradient: OwnGradient,
): Tensor {
  const nodes = inputs.map(({ node }) => node);
  const node = withOwnGradient(
    nodes,
    () => value,
    (...given) => {
      if (isGradEnabled()) throw secondDerivative(op, value.shape);
      return gradient(...given);
    },
  );
  return new Tensor(node);
}

function secondDerivative(op: string, shape: Shape): TensorStateError {
  return new TensorStateError(
    {
      asked: `grad with createGraph, through linalg.${op} of shape ${formatShape(shape)}`,
      found: 'a result of the host, of which there are first derivatives only',
      todo: 'Leave createGraph out, or detach() the result',
    },
    { op, shape },
  );
}
