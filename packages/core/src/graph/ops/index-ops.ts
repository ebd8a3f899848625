import { elementCount, sameShape, sizeAt } from '../../base/shape.ts';
import type { ValueType } from '../../spec/dtype.ts';
import { CallSite } from '../call-site.ts';
import { createNode } from '../create-node.ts';
import { at, requireSameDType, shapeFault, withSize } from '../infer-checks.ts';
import {
  requireAddend,
  requireElementIndices,
  requireIndexDType,
  requireRowIndices,
} from '../infer-indices.ts';
import { localOf, type Node } from '../node.ts';
import { movement, type SimpleEntries } from '../op-entry.ts';
import { cast, equal, where } from './elementwise.ts';
import { constant, iota, zerosLike } from './leaf.ts';
import { reshape } from './movement.ts';

/** Ops that read and write elements or rows at indices. */
export const indexOps: SimpleEntries<
  'gather' | 'scatterAdd' | 'scatter' | 'indexSelect' | 'indexAdd'
> = {
  gather: {
    ...movement,
    linearIn: [[0]],
    infer: ({ dim }, inputs) => {
      requireElementIndices('gather', dim, inputs);
      return { shape: at(inputs, 1).shape, dtype: at(inputs, 0).dtype };
    },
    gradient: ({ params, site }, gy, _, x, index) => [
      scatterAdd(zerosLike(x), params.dim, index, gy, site),
      null,
    ],
  },
  scatterAdd: {
    ...movement,
    dtypes: 'computed',
    linearIn: [[0, 2]],
    infer: ({ dim }, inputs) => {
      requireElementIndices('scatterAdd', dim, inputs);
      requireAddend('scatterAdd', at(inputs, 0), at(inputs, 2));
      return withSources('scatterAdd', inputs);
    },
    gradient: ({ params, site }, gy, _y, _x, index) => [
      gy,
      null,
      gather(gy, params.dim, index, site),
    ],
  },
  scatter: {
    ...movement,
    linearIn: [[0, 2]],
    infer: ({ dim }, inputs) => {
      requireElementIndices('scatter', dim, inputs);
      requireSameDType('scatter', [at(inputs, 0), at(inputs, 2)]);
      return withSources('scatter', inputs);
    },
    gradient: ({ params: { dim }, site }, gy, _, x, index, source) => {
      // An element that was overwritten has no gradient. If indices are equal, only the last one gets the gradient.
      const numbers = reshape(iota([elementCount(index.shape)], 0), index.shape);
      const written = scatter(constant(0, x.shape, 'i32'), dim, index, numbers, site);
      const isLast = equal(gather(written, dim, index, site), numbers);
      return [
        scatter(gy, dim, index, zerosLike(source), site),
        null,
        where(isLast, gather(gy, dim, index, site), zerosLike(source)),
      ];
    },
  },
  indexSelect: {
    ...movement,
    linearIn: [[0]],
    infer: ({ dim }, inputs) => {
      const [x, index] = [at(inputs, 0), at(inputs, 1)];
      requireRowIndices('indexSelect', dim, inputs);
      return { shape: withSize(x.shape, dim, sizeAt(index.shape, 0)), dtype: x.dtype };
    },
    gradient: ({ params, site }, gy, _, x, index) => [
      indexAdd(zerosLike(x), params.dim, index, gy, site),
      null,
    ],
  },
  indexAdd: {
    ...movement,
    dtypes: 'computed',
    linearIn: [[0, 2]],
    infer: ({ dim }, inputs) => {
      const [x, index, source] = [at(inputs, 0), at(inputs, 1), at(inputs, 2)];
      requireRowIndices('indexAdd', dim, inputs);
      requireAddend('indexAdd', x, source);
      if (!sameShape(source.shape, withSize(x.shape, dim, elementCount(index.shape)))) {
        throw shapeFault(
          'indexAdd',
          inputs,
          'a source that does not fit',
          'Use one source row per index',
        );
      }
      return x;
    },
    gradient: ({ params, site }, gy, _y, _x, index) => [
      gy,
      null,
      indexSelect(gy, params.dim, index, site),
    ],
  },
};

/** The type of x, into which as many sources go as there are indices. */
function withSources(op: string, inputs: readonly ValueType[]): ValueType {
  if (sameShape(at(inputs, 1).shape, at(inputs, 2).shape)) return at(inputs, 0);
  throw shapeFault(op, inputs, 'an index and a source that differ', 'Use equal shapes');
}

// An index that is out of range is found in a run. The error then names the user's operation by the node's site.

/** torch.gather. Shape: x N, index i32 N' -> N'. */
export function gather(
  x: Node,
  dim: number,
  index: Node,
  site: CallSite | null = new CallSite('gather'),
): Node {
  return withSite(createNode(indexOps.gather, 'gather', { dim }, [x, index]), site);
}

/** torch.scatter_add. Shape: x N, index i32 N', source N' -> N. */
export function scatterAdd(
  x: Node,
  dim: number,
  index: Node,
  source: Node,
  site: CallSite | null = new CallSite('scatterAdd'),
): Node {
  return withSite(createNode(indexOps.scatterAdd, 'scatterAdd', { dim }, [x, index, source]), site);
}

/** torch.scatter. If indices are equal, the last one counts. Shape: x N, index i32 N', source N' -> N. */
export function scatter(
  x: Node,
  dim: number,
  index: Node,
  source: Node,
  site: CallSite | null = new CallSite('scatter'),
): Node {
  return withSite(createNode(indexOps.scatter, 'scatter', { dim }, [x, index, source]), site);
}

/** torch.index_select. Shape: x [.., D, ..], index i32 [I] -> [.., I, ..]. */
export function indexSelect(
  x: Node,
  dim: number,
  index: Node,
  site: CallSite | null = new CallSite('indexSelect'),
): Node {
  return withSite(createNode(indexOps.indexSelect, 'indexSelect', { dim }, [x, index]), site);
}

/** torch.index_add. Shape: x [.., D, ..], index i32 [I], source [.., I, ..] -> [.., D, ..]. */
export function indexAdd(
  x: Node,
  dim: number,
  index: Node,
  source: Node,
  site: CallSite | null = new CallSite('indexAdd'),
): Node {
  return withSite(createNode(indexOps.indexAdd, 'indexAdd', { dim }, [x, index, source]), site);
}

/** Shape: index i32 N -> bool [..N, classes]. */
export function oneHot(index: Node, classes: number): Node {
  requireIndexDType('oneHot', index);
  const shape = [...index.shape, classes];
  const places = reshape(index, [...index.shape, 1]);
  const ones = constant(1, places.shape, 'i32');
  const site = new CallSite('oneHot');
  const counts = scatterAdd(constant(0, shape, 'i32'), index.shape.length, places, ones, site);
  return cast(counts, 'bool');
}

function withSite(node: Node, site: CallSite | null): Node {
  localOf(node).site = site;
  return node;
}
