import {
  LayoutError,
  type Layout,
  type MeshAxis,
  type Model,
  type Module,
  type ParallelModel,
  type ParameterPlan,
  type ParameterSpec,
  type Plan,
  type Strategy,
} from '@shardwise/core';

/**
 * Two strategies on one mesh, over different axes: `compose(tensorParallel(...), fsdp())`. The first
 * lays out the model; the second lays out what each rank then has, and averages over its batches.
 * Planning throws LayoutError where both use one axis.
 */
export function compose(first: Strategy<Module>, second: Strategy<Module>): Strategy<Module> {
  return {
    name: `${first.name} × ${second.name}`,
    plan(parameters, axes) {
      const outer = first.plan(parameters, axes);
      return merge(outer, second.plan(localSpecs(outer), axes));
    },
    async apply<M extends Module, Inputs extends readonly unknown[], Output>(
      plan: Plan,
      model: M & Model<Inputs, Output>,
    ): Promise<ParallelModel<M, Inputs, Output>> {
      const outer = first.plan(plan.parameters, plan.axes);
      const under = await first.apply(outer, model);
      const over = await second.apply(second.plan(localSpecs(outer), plan.axes), model);
      return {
        module: over.module,
        forward: (...inputs) => over.forward(...inputs),
        noSync: (body) => over.noSync(() => under.noSync(body)),
      };
    },
  };
}

/** Parameters as one rank has them after the first strategy. */
function localSpecs({ parameters, axes }: Plan): ParameterSpec[] {
  return parameters.map(({ name, names, shape, dtype, requiresGrad, parameter }) => ({
    name,
    ...(names === undefined ? {} : { names }),
    shape: shape.map((size, dim) => size / ranksOf(parameter.dims[dim] ?? [], axes)),
    dtype,
    requiresGrad,
  }));
}

function merge(outer: Plan, inner: Plan): Plan {
  requireDifferentAxes(outer, inner);
  return {
    strategy: `${outer.strategy} × ${inner.strategy}`,
    axes: outer.axes,
    batch: mergeLayouts(outer.batch, inner.batch),
    parameters: outer.parameters.map((own, index): ParameterPlan => {
      const part = inner.parameters[index];
      if (part === undefined) throw new RangeError(`a plan without '${own.name}'`);
      return {
        ...own,
        parameter: mergeLayouts(own.parameter, part.parameter),
        gradient: mergeLayouts(own.gradient, part.gradient),
        optimizer: mergeLayouts(own.optimizer, part.optimizer),
      };
    }),
    collectives: [...outer.collectives, ...inner.collectives],
  };
}

function mergeLayouts(outer: Layout, inner: Layout): Layout {
  const count = Math.max(outer.dims.length, inner.dims.length);
  const flat = [...(outer.flat ?? []), ...(inner.flat ?? [])];
  return {
    dims: Array.from({ length: count }, (_, dim) => [
      ...(outer.dims[dim] ?? []),
      ...(inner.dims[dim] ?? []),
    ]),
    partial: [...outer.partial, ...inner.partial],
    ...(flat.length === 0 ? {} : { flat }),
  };
}

function requireDifferentAxes(outer: Plan, inner: Plan): void {
  const used = new Set(axesOf(outer));
  const shared = [...new Set(axesOf(inner))].find((axis) => used.has(axis));
  if (shared === undefined) return;
  const size = outer.axes.find(({ name }) => name === shared)?.size ?? 1;
  const mesh = outer.axes.map(({ name, size: ranks }) => `${name}=${ranks}`).join(', ');
  throw new LayoutError(
    {
      asked: `${outer.strategy} composed with ${inner.strategy} on a mesh of ${mesh}`,
      found: `both use the ${size} ranks of the axis '${shared}'`,
      todo: 'Give each its own axis of the mesh',
    },
    { axis: shared, axes: outer.axes },
  );
}

function axesOf({ batch, parameters, collectives }: Plan): string[] {
  const layouts = [batch, ...parameters.flatMap((p) => [p.parameter, p.gradient, p.optimizer])];
  return [
    ...layouts.flatMap(({ dims, partial, flat }) => [...dims.flat(), ...partial, ...(flat ?? [])]),
    ...collectives.map(({ axis }) => axis),
  ];
}

function ranksOf(names: readonly string[], axes: readonly MeshAxis[]): number {
  return axes
    .filter(({ name }) => names.includes(name))
    .reduce((product, { size }) => product * size, 1);
}
