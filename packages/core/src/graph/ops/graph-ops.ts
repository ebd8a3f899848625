import { formatShape, sizeAt } from '../../base/shape.ts';
import type { GraphOp } from '../../spec/op.ts';
import type { AxisTypes } from '../axis-types.ts';
import { createNode, noGrad } from '../create-node.ts';
import {
  at,
  first,
  numbers,
  requireDType,
  requireSame,
  requireSizes,
  same,
  shapeFault,
  withSize,
} from '../infer-checks.ts';
import { none, type Node } from '../node.ts';
import { noGradient, ofGraph, type SimpleEntries } from '../op-entry.ts';
import { hasUnknownRows, unknownFault } from '../row-counts.ts';

/** Inputs and distributed nodes are made with their types. */
const notInferred = (): never => {
  throw new TypeError('a leaf');
};

/** Ops that no backend sees. */
export const graphOps: SimpleEntries<GraphOp> = {
  input: { ...ofGraph, memory: 'none', infer: notInferred, gradient: noGradient },
  distributed: {
    ...ofGraph,
    memory: 'none',
    infer: notInferred,
    gradient: noGradient,
  },
  detach: {
    ...ofGraph,
    memory: 'input',
    linearIn: 'all',
    dims: 'elementwise',
    infer: same,
    gradient: noGradient,
  },
  ownGradient: {
    ...ofGraph,
    memory: 'input',
    infer: same,
    gradient: (node, gy, y, _, ...inputs) => [
      null,
      ...(node.ownGradient?.(gy, inputs, y) ?? inputs.map(() => null)),
    ],
  },
  takeRows: {
    ...ofGraph,
    dtypes: 'any',
    linearIn: [[0]],
    infer: (_, inputs) => {
      const [x, count] = [at(inputs, 0), at(inputs, 1)];
      if (count.dtype !== 'i32' || count.shape.length > 0 || x.shape.length === 0) {
        throw shapeFault(
          'takeRows',
          inputs,
          `a count ${count.dtype} of shape ${formatShape(count.shape)}`,
          'Give rows, and their number as an i32 tensor without dims',
        );
      }
      if (hasUnknownRows(x.shape))
        throw unknownFault('takeRows', inputs, 'some of them would be taken');
      return { shape: withSize(x.shape, 0, Number.NaN), dtype: x.dtype };
    },
    gradient: (_, gy, _y, { shape }) => [fillRows(gy, sizeAt(shape, 0)), null],
  },
  fillRows: {
    ...ofGraph,
    linearIn: 'all',
    infer: ({ rows }, inputs) => {
      const x = first(inputs);
      requireSizes('fillRows', [rows]);
      requireDType('fillRows', x, numbers);
      if (!hasUnknownRows(x.shape)) {
        throw shapeFault('fillRows', inputs, 'rows of a known number', 'Use pad()');
      }
      return { shape: withSize(x.shape, 0, rows), dtype: x.dtype };
    },
    gradient: (_, gy, _y, { rowCount }) => {
      if (rowCount === null) throw new RangeError('fillRows of rows whose number is known');
      return [takeRows(gy, rowCount.count)];
    },
  },
  assign: {
    ...ofGraph,
    infer: (_, inputs) => {
      requireSame('assign', inputs);
      return first(inputs);
    },
    gradient: noGradient,
  },
};

/** The same value, through which no gradient flows. */
export function detach(x: Node): Node {
  return noGrad(() => createNode(graphOps.detach, 'detach', none, [x]));
}

/**
 * The value of `result`. Its gradient goes to the inputs, by a rule that the node is given (`Node.ownGradient`). The caller
 * gives `axisTypes` if the inputs do not lie as the result does.
 */
export function ownGradient(
  result: Node,
  inputs: readonly Node[],
  axisTypes?: AxisTypes | null,
): Node {
  return createNode(graphOps.ownGradient, 'ownGradient', none, [result, ...inputs], axisTypes);
}

/** The first `count` rows. Shape: x [N, ..], count i32 [] -> [count, ..]. */
export function takeRows(x: Node, count: Node): Node {
  return createNode(graphOps.takeRows, 'takeRows', none, [x, count]);
}

/** The rows of x, followed by zeros. Shape: x [count, ..] -> [rows, ..]. */
export function fillRows(x: Node, rows: number): Node {
  return createNode(graphOps.fillRows, 'fillRows', { rows }, [x]);
}

/** Overwrites the buffer of target at the end of the run. Shape: target N, value N -> N. */
export function assign(target: Node, value: Node): Node {
  return noGrad(() => createNode(graphOps.assign, 'assign', none, [target, value]));
}
