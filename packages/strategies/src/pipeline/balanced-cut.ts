import { elementCount, LayoutError, type ModelSpec } from '@shardwise/core/extend';
import { balancedPartition } from '../pipeline-schedule/balanced-partition.ts';
import { modulePaths } from './stages-of-parameters.ts';

/**
 * Where to cut a model into stages such that the one with the most parameters has as few as can be. A stage begins with a
 * module that the model itself holds, or with a member of a list of it. Throws LayoutError for more stages than such modules.
 */
export function balancedCut(model: ModelSpec, stages: number): readonly string[] {
  const paths = modulePaths(model);
  const chain = chainOf(paths);
  if (stages > chain.length) {
    throw new LayoutError(
      {
        asked: `a pipeline of ${stages} stages`,
        found: `a model of ${chain.length} modules in a row: ${chain.slice(0, 8).join(', ')}`,
        todo: `Take ${chain.length} stages at most, or name modules inside of these: cut: ['${chain[0] ?? 'blocks.0'}.…']`,
      },
      { stages, modules: chain.length },
    );
  }
  const costs = chain.map(() => 0);
  for (const { name, shape } of model.parameters) {
    const place = chain.findIndex((path) => name.startsWith(`${path}.`));
    // What the model holds itself is in the first stage.
    const at = Math.max(0, place);
    costs[at] = (costs[at] ?? 0) + elementCount(shape);
  }
  const boundaries = balancedPartition(costs, stages);
  return boundaries.slice(1, -1).map((place) => chain[place] ?? '');
}

/** The modules of a model in a row: those that it holds, and the members of its lists in their place. */
function chainOf(paths: readonly string[]): readonly string[] {
  const byParent = Map.groupBy(
    paths.filter((path) => path !== ''),
    (path) => (path.includes('.') ? path.slice(0, path.lastIndexOf('.')) : ''),
  );
  const isList = (path: string): boolean =>
    byParent.get(path)?.every((member) => /^\d+$/.test(member.slice(path.length + 1))) ?? false;
  const inRow = (path: string): readonly string[] =>
    isList(path) ? (byParent.get(path) ?? []).flatMap(inRow) : [path];
  return (byParent.get('') ?? []).flatMap(inRow);
}
