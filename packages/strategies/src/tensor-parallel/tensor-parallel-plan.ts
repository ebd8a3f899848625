import {
  type CollectivePlan,
  dtypes,
  elementCount,
  type Layout,
  LayoutError,
  type MeshAxis,
  type ParameterSpec,
  type Plan,
} from '@shardwise/core/extend';
import { matchesModule } from './module-pattern.ts';
import type { ModuleSpec, ParallelStyle } from './parallel-style.ts';
import { type Partition, samePartition } from './partition.ts';

export type StylePlan = Readonly<Record<string, ParallelStyle>>;

export interface TensorParallelPlanOptions {
  readonly axis: string;
  /** Of a rank's batch. */
  readonly tokens: number;
}

/** What `tensorParallel` will do, from names and shapes alone. */
export function tensorParallelPlan(
  styles: StylePlan,
  parameters: readonly ParameterSpec[],
  axes: readonly MeshAxis[],
  { axis, tokens }: TensorParallelPlanOptions,
): Plan {
  const size = sizeOf(axes, axis);
  const cuts = partitionsOf(styles, parameters, size);
  const collectives: CollectivePlan[] = [];
  if (size > 1) {
    const names = parameters.map(({ name }) => name);
    collectives.push({
      operation: 'broadcast',
      axis,
      when: 'start',
      parameters: names,
      bytes: parameters.reduce(
        (sum, { shape, dtype }) => sum + elementCount(shape) * dtypes[dtype].bytes,
        0,
      ),
    });
    for (const { module, style } of styledModules(styles, parameters)) {
      const list = [...module.parameters.values()].map(({ name }) => name);
      for (const each of style.collectives(module, tokens)) {
        collectives.push({ ...each, axis, parameters: list });
      }
    }
  }
  return {
    strategy: 'tensor-parallel',
    axes,
    batch: { dims: [], partial: [] },
    parameters: parameters.map((parameter) => {
      const layout = layoutOf(parameter, cuts.get(parameter.name), axis);
      return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
    }),
    collectives,
  };
}

/** How parameters are cut, by their first names. Throws LayoutError where two styles disagree. */
export function partitionsOf(
  styles: StylePlan,
  parameters: readonly ParameterSpec[],
  size: number,
): ReadonlyMap<string, Partition> {
  const cuts = new Map<string, { partition: Partition; by: string }>();
  for (const { module, style } of styledModules(styles, parameters)) {
    for (const [own, partition] of style.partitions(module, size)) {
      const name = module.parameters.get(own)?.name ?? own;
      const by = `${style.name}() of '${module.path}'`;
      const before = cuts.get(name);
      if (before !== undefined && !samePartition(before.partition, partition)) {
        throw new LayoutError(
          {
            asked: `'${name}' cut along dim ${partition.dim} in sections of ${partition.sections.join(', ')} by ${by}`,
            found: `it is cut along dim ${before.partition.dim} in sections of ${before.partition.sections.join(', ')} by ${before.by}`,
            todo: 'Use styles that cut a shared parameter alike',
          },
          { name },
        );
      }
      cuts.set(name, { partition, by });
    }
  }
  return new Map([...cuts].map(([name, { partition }]) => [name, partition]));
}

export interface CutModule {
  readonly path: string;
  readonly style: ParallelStyle;
  /** Of the parameters that the style cuts: their first names in the model. */
  readonly parameters: readonly string[];
}

/** Modules that compute with parts of their parameters. */
export function cutModules(
  styles: StylePlan,
  parameters: readonly ParameterSpec[],
  size: number,
): CutModule[] {
  return styledModules(styles, parameters).flatMap(({ module, style }) => {
    const own = [...style.partitions(module, size).keys()];
    if (own.length === 0) return [];
    const names = own.map((name) => module.parameters.get(name)?.name ?? name);
    return [{ path: module.path, style, parameters: names }];
  });
}

interface StyledModule {
  readonly module: ModuleSpec;
  readonly style: ParallelStyle;
}

/** Modules with parameters that a style is for, in the order of the model. */
function styledModules(styles: StylePlan, parameters: readonly ParameterSpec[]): StyledModule[] {
  const modules = new Map<string, Map<string, ParameterSpec>>();
  for (const parameter of parameters) {
    for (const name of parameter.names ?? [parameter.name]) {
      const parts = name.split('.');
      for (let depth = 0; depth < parts.length; depth++) {
        const path = parts.slice(0, depth).join('.');
        const members = modules.get(path) ?? new Map<string, ParameterSpec>();
        modules.set(path, members.set(parts.slice(depth).join('.'), parameter));
      }
    }
  }
  return [...modules].flatMap(([path, members]) =>
    Object.entries(styles)
      .filter(([pattern]) => matchesModule(pattern, path))
      .map(([, style]) => ({ module: { path, parameters: members }, style })),
  );
}

function layoutOf(
  { shape }: ParameterSpec,
  partition: Partition | undefined,
  axis: string,
): Layout {
  return { dims: shape.map((_, dim) => (dim === partition?.dim ? [axis] : [])), partial: [] };
}

function sizeOf(axes: readonly MeshAxis[], axis: string): number {
  const size = axes.find(({ name }) => name === axis)?.size;
  if (size !== undefined) return size;
  throw new LayoutError(
    {
      asked: `tensor parallelism over the mesh axis '${axis}'`,
      found: `the axes ${axes.map(({ name }) => name).join(', ') || '(none)'}`,
      todo: 'Name an axis of the mesh',
    },
    { axis, axes },
  );
}
