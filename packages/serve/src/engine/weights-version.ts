import { isOp, type Module, type Node, targetOf } from '@shardwise/core/extend';

/** A number that grows when a parameter or a buffer of the model gets new contents. */
export function weightsVersion(module: Module): number {
  const versionOf = (node: Node): number =>
    isOp(node, 'assign') ? Math.max(node.id, targetOf(node).updatedAt) : node.updatedAt;
  return module
    .parameters()
    .reduce((latest, { part }) => Math.max(latest, versionOf(part.node)), 0);
}
