import {
  ConfigError,
  type Layer,
  type Module,
  ModuleDict,
  ModuleList,
  Sequential,
} from '@shardwise/core/extend';

/**
 * Replaces modules by others, wherever a model or a module below it holds them. Lists that hold one are made anew. Throws
 * ConfigError, before anything changes, for a list of a class of its own, and if the model itself is a list.
 */
export function replaceModules(model: Module, replacements: ReadonlyMap<Module, Module>): void {
  const all = new Map(replacements);
  // Children come first, so that a list in a list is made of lists that were made anew.
  const modules = model.namedModules().toReversed();
  for (const [path, module] of modules) {
    if (!(module instanceof ModuleList) || !module.children.some((child) => all.has(child))) {
      continue;
    }
    if (module === model) throw listError(path, module, 'the model itself is a list');
    const children = module.children.map((child) => all.get(child) ?? child);
    all.set(module, listOf(path, module, children));
  }
  for (const [, parent] of modules) {
    for (const [name, child] of parent.namedChildren()) {
      const replacement = all.get(child);
      if (replacement === undefined || parent instanceof ModuleList) continue;
      if (parent instanceof ModuleDict) parent.set(name, replacement);
      else setField(parent, child, replacement);
    }
  }
}

function listOf(path: string, list: ModuleList, children: readonly Module[]): Module {
  if (list.constructor === ModuleList) return new ModuleList(children);
  if (list.constructor === Sequential) return new Sequential(...children.filter(isLayer));
  throw listError(path, list, `'${path}' is a list of a class of its own`);
}

function isLayer(module: Module): module is Layer {
  return 'forward' in module;
}

function setField(parent: Module, child: Module, replacement: Module): void {
  for (const [field, value] of Object.entries(parent)) {
    if (value === child) Reflect.set(parent, field, replacement);
  }
}

function listError(path: string, list: ModuleList, found: string): ConfigError {
  return new ConfigError(
    {
      asked: `to replace layers of the ${list.constructor.name} '${path}'`,
      found,
      todo: 'Put the list, or the layers, into fields of a module',
    },
    { path },
  );
}
