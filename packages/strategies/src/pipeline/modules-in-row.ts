import type { ModelSpec } from '@shardwise/core/extend';
import { modulePaths } from './stages-of-parameters.ts';

/**
 * Returns the chain of a model's modules at which stages may begin: its children, where a list stands for its members.
 */
export function modulesInRow(model: ModelSpec): readonly string[] {
  const byParent = Map.groupBy(
    modulePaths(model).filter((path) => path !== ''),
    (path) => (path.includes('.') ? path.slice(0, path.lastIndexOf('.')) : ''),
  );
  const isList = (path: string): boolean =>
    byParent.get(path)?.every((member) => /^\d+$/.test(member.slice(path.length + 1))) ?? false;
  const inRow = (path: string): readonly string[] =>
    isList(path) ? (byParent.get(path) ?? []).flatMap(inRow) : [path];
  return (byParent.get('') ?? []).flatMap(inRow);
}
