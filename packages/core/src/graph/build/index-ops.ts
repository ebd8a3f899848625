import { CallSite } from '../call-site.ts';
import { cast } from './elementwise.ts';
import { constant } from './leaf.ts';
import { reshape } from './movement.ts';
import { requireIndexDType } from '../infer-indices.ts';
import { createNode } from '../create-node.ts';
import { localOf, type Node } from '../node.ts';

// An index that is out of range is found in a run. The error then names the user's operation by the node's site.

/** torch.gather. Shape: x N, index i32 N' -> N'. */
export function gather(
  x: Node,
  dim: number,
  index: Node,
  site: CallSite | null = new CallSite('gather'),
): Node {
  return withSite(createNode('gather', { dim }, [x, index]), site);
}

/** torch.scatter_add. Shape: x N, index i32 N', source N' -> N. */
export function scatterAdd(
  x: Node,
  dim: number,
  index: Node,
  source: Node,
  site: CallSite | null = new CallSite('scatterAdd'),
): Node {
  return withSite(createNode('scatterAdd', { dim }, [x, index, source]), site);
}

/** torch.scatter. If indices are equal, the last one counts. Shape: x N, index i32 N', source N' -> N. */
export function scatter(
  x: Node,
  dim: number,
  index: Node,
  source: Node,
  site: CallSite | null = new CallSite('scatter'),
): Node {
  return withSite(createNode('scatter', { dim }, [x, index, source]), site);
}

/** torch.index_select. Shape: x [.., D, ..], index i32 [I] -> [.., I, ..]. */
export function indexSelect(
  x: Node,
  dim: number,
  index: Node,
  site: CallSite | null = new CallSite('indexSelect'),
): Node {
  return withSite(createNode('indexSelect', { dim }, [x, index]), site);
}

/** torch.index_add. Shape: x [.., D, ..], index i32 [I], source [.., I, ..] -> [.., D, ..]. */
export function indexAdd(
  x: Node,
  dim: number,
  index: Node,
  source: Node,
  site: CallSite | null = new CallSite('indexAdd'),
): Node {
  return withSite(createNode('indexAdd', { dim }, [x, index, source]), site);
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
