import { LayoutError, type ModelSpec } from '@shardwise/core/extend';
import { matchesModule } from '../../plan/matches-module.ts';

/**
 * Returns the stage that has each parameter: the number of cuts that stand before its module in the tree of modules, or
 * at it. Throws LayoutError for cuts that are not modules, or that are not in the order of the model.
 */
export function stagesOfParameters(model: ModelSpec, cut: readonly string[]): readonly number[] {
  const stages = stagesOfModules(model, cut);
  return model.parameters.map(({ name }) => {
    const path = name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : '';
    return stages.get(path) ?? 0;
  });
}

/** Returns the stage of each module, by its path. Throws the errors of stagesOfParameters. */
export function stagesOfModules(
  model: ModelSpec,
  cut: readonly string[],
): ReadonlyMap<string, number> {
  const paths = modulePaths(model);
  const places = cut.map((path) => {
    const place = paths.indexOf(path);
    if (place > 0) return place;
    throw splitError(
      path,
      `no module of this name; there are ${paths.slice(1, 8).join(', ')}, …`,
      'Name modules of the model, where stages begin',
    );
  });
  for (const [index, place] of places.entries()) {
    const before = places[index - 1];
    if (before === undefined || before < place) continue;
    throw splitError(
      cut[index] ?? '',
      `it does not come after '${cut[index - 1]}', the cut before it, in the model`,
      'Give the cuts in the order of the modules',
    );
  }
  return new Map(
    paths.map((path, place) => [path, places.filter((start) => start <= place).length]),
  );
}

/** Returns the paths of a model's modules in its order. Throws LayoutError if the model lists them in another one. */
function modulePaths(model: ModelSpec): readonly string[] {
  const paths = model.modules ?? pathsOf(model);
  requireOrder(paths);
  return paths;
}

/**
 * Checks that each module comes right after its parent or inside of it. Otherwise nobody could tell which modules
 * follow a cut.
 */
function requireOrder(paths: readonly string[]): void {
  const around: string[] = [];
  for (const path of paths) {
    while (around.length > 0 && !isInside(path, around.at(-1) ?? '')) around.pop();
    const parent = path.includes('.') ? path.slice(0, path.lastIndexOf('.')) : '';
    if (path !== '' && around.at(-1) !== parent) {
      throw new LayoutError(
        {
          asked: 'stages of a model that is given by the paths of its modules',
          found: `'${path}', which does not follow '${parent}' or a module inside of '${parent}'`,
          todo: 'List each module, then the modules inside of it, and then the next module',
        },
        { path },
      );
    }
    around.push(path);
  }
}

function isInside(path: string, outer: string): boolean {
  return outer === '' || path.startsWith(`${outer}.`);
}

/** Derives the paths of modules from the names of parameters, for a model that is given without modules. */
function pathsOf({ parameters }: ModelSpec): readonly string[] {
  const paths = new Set(['']);
  for (const { name } of parameters) {
    const names = name.split('.').slice(0, -1);
    for (let count = 1; count <= names.length; count++) paths.add(names.slice(0, count).join('.'));
  }
  return [...paths];
}

function splitError(path: string, found: string, todo: string): LayoutError {
  return new LayoutError({ asked: `a pipeline cut at '${path}'`, found, todo }, { cut: path });
}

/**
 * Returns the chain of a model's modules at which stages may begin: those that it names itself, or its children, where a
 * list stands for its members.
 */
export function modulesInRow(model: ModelSpec): readonly string[] {
  const stages = model.division?.stages;
  if (stages !== undefined) {
    return modulePaths(model).filter((path) => stages.some((each) => matchesModule(each, path)));
  }
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
