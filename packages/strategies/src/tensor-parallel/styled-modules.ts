import {
  type DimSharding,
  LayoutError,
  type ModelSpec,
  type ParameterSpec,
  sameAxisLayout,
} from '@shardwise/core/extend';
import { matchesModule } from '../plan/matches-module.ts';
import type { ModuleSpec, ParallelStyle } from './parallel-style.ts';
import { styleShardings } from './style-shardings.ts';

/** Styles by patterns for paths of modules. */
export type StylePlan = Readonly<Record<string, ParallelStyle>>;

export interface StyledModule {
  readonly module: ModuleSpec;
  readonly style: ParallelStyle;
}

/** Returns how parameters are sharded, by their first names. Throws LayoutError if two styles disagree. */
export function shardingsOf(
  styles: StylePlan,
  model: ModelSpec,
  size: number,
): ReadonlyMap<string, DimSharding> {
  const found = new Map<string, { sharding: DimSharding; by: string }>();
  for (const { module, style } of styledModules(styles, model)) {
    for (const [own, sharding] of styleShardings(style, module, size)) {
      const name = module.parameters.get(own)?.name ?? own;
      const by = `${style.name}() of '${module.path}'`;
      const before = found.get(name);
      if (before !== undefined && !sameAxisLayout(before.sharding, sharding)) {
        throw new LayoutError(
          {
            asked: `'${name}' sharded along ${describe(sharding)} by ${by}`,
            found: `it is sharded along ${describe(before.sharding)} by ${before.by}`,
            todo: 'Use styles that cut a shared parameter in the same way',
          },
          { name },
        );
      }
      found.set(name, { sharding, by });
    }
  }
  return new Map([...found].map(([name, { sharding }]) => [name, sharding]));
}

/** Returns the modules that have a style, in the order of the model. */
export function styledModules(styles: StylePlan, model: ModelSpec): readonly StyledModule[] {
  const specs = moduleSpecs(model);
  return specs.flatMap((module) =>
    Object.entries(styles)
      .filter(([pattern]) => matchesModule(pattern, module.path))
      .map(([, style]) => ({ module, style })),
  );
}

/** Returns all modules. If the model does not list them, they are derived from the names of parameters. */
function moduleSpecs({ parameters, modules = [] }: ModelSpec): readonly ModuleSpec[] {
  const members = new Map<string, Map<string, ParameterSpec>>(
    modules.map((path) => [path, new Map()]),
  );
  for (const parameter of parameters) {
    for (const name of parameter.names ?? [parameter.name]) {
      const parts = name.split('.');
      for (let depth = 0; depth < parts.length; depth++) {
        const path = parts.slice(0, depth).join('.');
        const own = members.get(path) ?? new Map<string, ParameterSpec>();
        members.set(path, own.set(parts.slice(depth).join('.'), parameter));
      }
    }
  }
  return [...members].map(([path, own]) => ({ path, parameters: own }));
}

function describe({ shard, sections }: DimSharding): string {
  return `dim ${shard}${sections === undefined ? '' : ` in sections of ${sections.join(', ')}`}`;
}
