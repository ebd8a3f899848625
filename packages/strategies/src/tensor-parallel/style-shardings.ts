import { type DimSharding, LayoutError, type ParameterSpec } from '@shardwise/core/extend';
import { evenSharding } from './even-sharding.ts';
import { BLOCK_ELEMENTS } from './blocked-weight.ts';
import { isInBlocks } from './module-spec.ts';
import type { ModuleSpec, ParallelStyle, ParameterSharding } from './parallel-style.ts';

/**
 * Returns how a style shards the parameters of a module over `size` ranks, by their names within the module. Throws
 * LayoutError if a parameter cannot be divided evenly.
 */
export function styleShardings(
  style: ParallelStyle,
  module: ModuleSpec,
  size: number,
): ReadonlyMap<string, DimSharding> {
  style.kind.sizes?.(module);
  requireNames(style, module);
  const own = Object.entries(style.parameters).flatMap(([name, layout]) => {
    const parameter = module.parameters.get(name);
    if (parameter === undefined || typeof layout === 'string') return [];
    return [[name, parameterSharding(parameter, layout, { style, module, size })] as const];
  });
  const within = Object.entries(style.modules ?? {}).flatMap(([name, each]) =>
    [...styleShardings(each, moduleWithin(module, name), size)].map(
      ([key, sharding]) => [`${name}.${key}`, sharding] as const,
    ),
  );
  return new Map([...own, ...within]);
}

/** Returns the description of a module of this module. */
export function moduleWithin(
  { path, parameters, cut, ...rest }: ModuleSpec,
  name: string,
): ModuleSpec {
  const prefix = `${name}.`;
  const own = [...parameters].filter(([key]) => key.startsWith(prefix));
  return {
    ...rest,
    path: `${path}.${name}`,
    parameters: new Map(own.map(([key, value]) => [key.slice(prefix.length), value])),
    ...(cut === undefined
      ? {}
      : {
          cut: new Set(
            [...cut].flatMap((key) => (key.startsWith(prefix) ? key.slice(prefix.length) : [])),
          ),
        }),
  };
}

/** A wrong name would leave a parameter whole, or its gradient without the terms of other ranks. */
function requireNames({ name: style, kind, parameters }: ParallelStyle, module: ModuleSpec): void {
  const { path } = module;
  const missing = Object.keys(parameters).find(
    (each) => !module.parameters.has(each) && kind.optional?.includes(each) !== true,
  );
  if (missing === undefined) return;
  throw new LayoutError(
    {
      asked: `${style}() of the module '${path}', with a layout of '${missing}'`,
      found: `the parameters ${[...module.parameters.keys()].join(', ') || '(none)'}`,
      todo: `Use a name of these, or name '${missing}' in kind.optional`,
    },
    { path, name: missing, style },
  );
}

interface Sharded {
  readonly style: ParallelStyle;
  readonly module: ModuleSpec;
  readonly size: number;
}

function parameterSharding(
  parameter: ParameterSpec,
  { shard, heads, transposed = false }: ParameterSharding,
  { style, module: { path }, size }: Sharded,
): DimSharding {
  const { name, shape } = parameter;
  const sections = heads === undefined ? {} : { heads };
  if (!isInBlocks(parameter)) {
    return evenSharding({ name, shape, dim: transposed ? 1 - shard : shard, size, ...sections });
  }
  const [, blocks = 0] = shape;
  if (shard === 1 && blocks % size !== 0) {
    throw new LayoutError(
      {
        asked: `${style.name}() of the module '${path}' over ${size} ranks`,
        found: `rows of ${blocks} blocks of ${BLOCK_ELEMENTS} elements, none of which is cut`,
        todo: `Use a number of ranks that divides ${blocks}, or leave the layer out of quantizeModel (targetModules)`,
      },
      { path, style: style.name, size, blocks },
    );
  }
  return evenSharding({ name, shape, dim: shard, size, ...sections });
}
