import { type Module, ModuleDict, ModuleList } from '@shardwise/core/extend';

/** Replaces modules by others, wherever a model or a module below it holds them. */
export function replaceModules(model: Module, replacements: ReadonlyMap<Module, Module>): void {
  for (const [, parent] of model.namedModules()) {
    for (const [name, child] of parent.namedChildren()) {
      const replacement = replacements.get(child);
      if (replacement === undefined) continue;
      if (parent instanceof ModuleList) parent.set(Number(name), replacement);
      else if (parent instanceof ModuleDict) parent.set(name, replacement);
      else setField(parent, child, replacement);
    }
  }
}

function setField(parent: Module, child: Module, replacement: Module): void {
  for (const [field, value] of Object.entries(parent)) {
    if (value === child) Reflect.set(parent, field, replacement);
  }
}
