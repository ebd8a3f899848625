import {
  axesOfLayout,
  firstPlace,
  joinLayouts,
  type Layout,
  LayoutError,
  localShape,
  type MeshAxis,
  type ParameterPlan,
  type ParameterSpec,
  type Plan,
  type PlanStep,
  type Strategy,
} from '@shardwise/core/extend';
import { collectivesOf, layerAxesOf, type ModelPlan, sequenceAxesOf, Step } from '../plan/step.ts';
import { requireStrategy, type StrategyWithLoss } from '../plan/strategy.ts';

/**
 * Combines strategies on different axes of one mesh: `compose(tensorParallel(...), pipeline(...), fsdp())`. Each
 * divides what the strategies before it leave to a rank. The strategy that divides the batch and averages gradients
 * comes last; `expertParallel` comes before it. `contextParallel` has the axis of such a strategy. Planning throws LayoutError if two strategies use the same axis, if
 * one before the last divides the batch, and if two cut the same parameter to compute with parts of it.
 */
export function compose<Output, Targets extends readonly unknown[]>(
  first: StrategyWithLoss<Output, Targets>,
  second: Strategy,
  ...others: readonly Strategy[]
): StrategyWithLoss<Output, Targets>;
export function compose<Output, Targets extends readonly unknown[]>(
  first: Strategy,
  second: StrategyWithLoss<Output, Targets>,
  ...others: readonly Strategy[]
): StrategyWithLoss<Output, Targets>;
export function compose(
  first: Strategy,
  second: Strategy,
  ...others: readonly Strategy[]
): Strategy;
export function compose(first: Strategy, ...others: readonly Strategy[]): Strategy {
  [first, ...others].forEach(requireStrategy);
  return others.reduce(composeTwo, first);
}

function composeTwo(first: MaybeWithLoss, second: MaybeWithLoss): MaybeWithLoss {
  const loss = first.loss ?? second.loss;
  return {
    specificationVersion: 1,
    name: `${first.name} × ${second.name}`,
    ...(loss === undefined ? {} : { loss }),
    plan(model, axes) {
      const outer = first.plan(model, axes);
      requireSameBatch(outer, second.name);
      return merge(outer, second.plan({ ...model, parameters: localSpecs(outer) }, axes));
    },
  };
}

interface MaybeWithLoss extends Strategy {
  readonly loss?: StrategyWithLoss['loss'];
}

/** Returns the parameters as one rank has them after the first strategy. */
function localSpecs({ parameters, axes }: ModelPlan): ParameterSpec[] {
  return parameters.map(({ name, names, shape, dtype, requiresGrad, parameter }) => ({
    name,
    ...(names === undefined ? {} : { names }),
    shape: localShape(shape, parameter, firstPlace(axes)),
    dtype,
    requiresGrad,
  }));
}

function merge(outer: ModelPlan, inner: ModelPlan): ModelPlan {
  requireDifferentAxes(outer, inner);
  requireOneSharding(outer, inner);
  const lowPrecision = outer.lowPrecision ?? inner.lowPrecision;
  const autocast = autocastOf(outer, inner);
  return {
    strategy: `${outer.strategy} × ${inner.strategy}`,
    axes: outer.axes,
    batch: withSequences(
      joinLayouts(outer.batch, inner.batch),
      sequenceAxesOf({ steps: [...outer.steps, ...inner.steps] }),
    ),
    parameters: outer.parameters.map((own, index): ParameterPlan => {
      const part = inner.parameters[index];
      if (part === undefined) throw new RangeError(`a plan without '${own.name}'`);
      return {
        ...own,
        parameter: joinLayouts(own.parameter, part.parameter),
        gradient: joinLayouts(own.gradient, part.gradient),
        optimizer: joinLayouts(own.optimizer, part.optimizer),
      };
    }),
    steps: mergeSteps(outer, inner),
    ...(lowPrecision === undefined ? {} : { lowPrecision }),
    ...(autocast === undefined ? {} : { autocast }),
  };
}

/** Returns the layout of a batch [rows, tokens], of whose axes some cut sequences instead of rows. */
function withSequences(batch: Layout, axes: readonly string[]): Layout {
  const [rows = [], tokens = [], ...others] = batch.dims;
  const cut = rows.filter((axis) => axes.includes(axis));
  if (cut.length === 0) return batch;
  const kept = rows.filter((axis) => !axes.includes(axis));
  return { ...batch, dims: [kept, [...tokens, ...cut], ...others] };
}

/** Returns the steps of both plans. One step takes the place of two if it can do the work of both. */
function mergeSteps(outer: ModelPlan, inner: ModelPlan): ModelPlan['steps'] {
  const replacements = new Map<PlanStep, ModelPlan['steps']>();
  for (const pair of mergedPairs(outer, inner)) {
    const atOuter = pair.place === 'outer';
    replacements.set(pair.outer, atOuter ? [pair.step] : []);
    replacements.set(pair.inner, atOuter ? [] : [pair.step]);
  }
  const steps = [...outer.steps, ...inner.steps].flatMap(
    (step) => replacements.get(step) ?? [step],
  );
  const isLast = (step: PlanStep): boolean =>
    outer.steps.includes(step) &&
    step instanceof Step &&
    inner.steps.some((other) => step.follows(other));
  return [...steps.filter((step) => !isLast(step)), ...steps.filter(isLast)];
}

/** Two steps, and the one that does the work of both. */
interface MergedPair {
  readonly outer: PlanStep;
  readonly inner: PlanStep;
  readonly step: Step<object>;
  /** Whose place the step takes. */
  readonly place: 'outer' | 'inner';
}

function mergedPairs(outer: ModelPlan, inner: ModelPlan): readonly MergedPair[] {
  return outer.steps.flatMap((own) =>
    inner.steps.flatMap((other) => {
      const merged = own instanceof Step ? own.mergedWith(other) : null;
      return merged === null ? [] : [{ outer: own, inner: other, ...merged }];
    }),
  );
}

/** Returns the autocast of the joined plan. A model has one forward pass, so both plans must agree if both have one. */
function autocastOf(outer: ModelPlan, inner: ModelPlan): ModelPlan['autocast'] {
  const [own, other] = [outer.autocast, inner.autocast];
  if (own === undefined || other === undefined || own.dtype === other.dtype) return own ?? other;
  throw new LayoutError(
    {
      asked: `${outer.strategy} composed with ${inner.strategy}`,
      found: `products in ${own.dtype} by the first, and in ${other.dtype} by the second`,
      todo: 'Give one of them the computeDtype, or both the same',
    },
    { axes: outer.axes },
  );
}

/**
 * Throws LayoutError if a strategy that is not the last one divides the batch. The strategy that averages gradients has
 * to see the parameters that an optimizer will update.
 */
function requireSameBatch(outer: Plan, second: string): void {
  const ofLayers = layerAxesOf(outer);
  const batchAxes = outer.batch.dims.flat().filter((axis) => !ofLayers.includes(axis));
  if (batchAxes.length === 0) return;
  throw new LayoutError(
    {
      asked: `${outer.strategy} composed with ${second} on a mesh of ${formatMesh(outer)}`,
      found: `${outer.strategy} comes first, and divides the batch over the ${ranksOf(batchAxes, outer.axes)} ranks of '${batchAxes.join("' × '")}'`,
      todo: 'Use one strategy that divides the batch, and put it last, as in compose(tensorParallel(styles), fsdp())',
    },
    { batchAxes, axes: outer.axes },
  );
}

/**
 * Throws LayoutError if both strategies cut a parameter to compute with parts of it. A strategy that divides the batch
 * gathers its parts, so it may cut parameters again.
 */
function requireOneSharding(outer: Plan, inner: Plan): void {
  if (inner.batch.dims.flat().length > 0) return;
  const index = outer.parameters.findIndex(
    ({ parameter }, at) =>
      parameter.dims.flat().length > 0 &&
      (inner.parameters[at]?.parameter.dims.flat() ?? []).length > 0,
  );
  const [own, other] = [outer.parameters[index], inner.parameters[index]];
  if (own === undefined || other === undefined) return;
  const cut = ({ parameter }: ParameterPlan): string => {
    const names = parameter.dims.flat();
    const dim = parameter.dims.findIndex((each) => each.length > 0);
    return `dim ${dim} over the ${ranksOf(names, outer.axes)} ranks of '${names.join("' × '")}'`;
  };
  throw new LayoutError(
    {
      asked: `${outer.strategy} composed with ${inner.strategy} on a mesh of ${formatMesh(outer)}`,
      found: `the first cuts '${own.name}' along ${cut(own)}, the second along ${cut(other)}`,
      todo: 'Give the two strategies styles for different modules',
    },
    { parameter: own.name, axes: outer.axes },
  );
}

function formatMesh({ axes }: Plan): string {
  return axes.map(({ name, size }) => `${name}=${size}`).join(', ');
}

function requireDifferentAxes(outer: Plan, inner: Plan): void {
  const joined = joinedAxes(outer, inner);
  const used = new Set(axesOf(outer).filter((axis) => !joined.has(axis)));
  const shared = [...new Set(axesOf(inner))].find((axis) => used.has(axis));
  if (shared === undefined) return;
  const size = outer.axes.find(({ name }) => name === shared)?.size ?? 1;
  throw new LayoutError(
    {
      asked: `${outer.strategy} composed with ${inner.strategy} on a mesh of ${formatMesh(outer)}`,
      found: `both use the ${size} ranks of the axis '${shared}'`,
      todo: 'Give each its own axis of the mesh',
    },
    { axis: shared, axes: outer.axes },
  );
}

/** Returns the axes over which one step computes layers for both plans. */
function joinedAxes(outer: ModelPlan, inner: ModelPlan): ReadonlySet<string> {
  const steps = mergedPairs(outer, inner).map(({ step }) => step);
  return new Set(layerAxesOf({ steps }));
}

function axesOf(plan: Plan): string[] {
  const { batch, parameters } = plan;
  const layouts = [batch, ...parameters.flatMap((p) => [p.parameter, p.gradient, p.optimizer])];
  return [...layouts.flatMap(axesOfLayout), ...collectivesOf(plan).map(({ axis }) => axis)];
}

function ranksOf(names: readonly string[], axes: readonly MeshAxis[]): number {
  return axes
    .filter(({ name }) => names.includes(name))
    .reduce((product, { size }) => product * size, 1);
}
