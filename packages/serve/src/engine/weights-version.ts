import { isOp, type Node, type Parameter, targetOf } from '@shardwise/core/extend';

/** A number that grows when one of a model's parameters gets new contents. */
export function weightsVersion(parameters: readonly Parameter[]): number {
  const versionOf = (node: Node): number =>
    isOp(node, 'assign') ? Math.max(node.id, targetOf(node).updatedAt) : node.updatedAt;
  return parameters.reduce((latest, { part }) => Math.max(latest, versionOf(part.node)), 0);
}
