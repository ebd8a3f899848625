import {
  axesOfLayout,
  ConfigError,
  formatLayout,
  formatShape,
  isHeldAt,
  type Module,
  ownPlace,
  type Plan,
  sequenceAxesOf,
  shardedAxes,
} from '@shardwise/core/extend';
import { planError } from '../plan/plan-error.ts';
import { collectivesOf } from '../plan/step.ts';

/**
 * Throws LayoutError for an impossible plan: axes that the mesh does not have or that are used twice, layouts with
 * another number of dims than their parameters, and collectives of parameters that the plan does not have.
 */
export function checkPlan(plan: Plan): void {
  const axes = new Set(plan.axes.map(({ name }) => name));
  const requireAxes = (asked: string, used: readonly string[]): void => {
    const unknown = used.find((axis) => !axes.has(axis));
    if (unknown !== undefined) {
      const found = `the axis '${unknown}', and the mesh has ${[...axes].join(', ') || 'none'}`;
      throw planError(plan, { asked, found, todo: 'Use axes that plan() is given' });
    }
    if (new Set(used).size === used.length) return;
    const found = `an axis twice: ${used.join(', ')}`;
    throw planError(plan, { asked, found, todo: 'Use each axis once' });
  };
  for (const parameter of plan.parameters) {
    for (const kind of ['parameter', 'gradient', 'optimizer'] as const) {
      const { [kind]: layout, name, shape } = parameter;
      const asked = `with the layout '${kind}' of '${name}'`;
      requireAxes(asked, axesOfLayout(layout));
      if (layout.dims.length === shape.length) continue;
      throw planError(plan, {
        asked,
        found: `${layout.dims.length} dims, and its shape is ${formatShape(shape)}`,
        todo: 'Give dims a list of axes for each dim, also an empty one',
      });
    }
  }
  requireAxes('with the layout of the batch', axesOfLayout(plan.batch));
  const names = new Set(plan.parameters.map(({ name }) => name));
  for (const { operation, axis, parameters, bytes, redistribution } of collectivesOf(plan)) {
    const asked = `with the collective ${operation}`;
    // A group of neighbouring ranks is an axis of its own, such as dp/2.
    requireAxes(asked, [axis.split('/')[0] ?? axis]);
    const unknown = parameters.find((name) => !names.has(name));
    if (unknown !== undefined && redistribution === undefined) {
      const found = `the parameter '${unknown}'`;
      throw planError(plan, { asked, found, todo: 'Name parameters of the plan' });
    }
    if (Number.isFinite(bytes) && bytes >= 0) continue;
    const todo = 'Say how many bytes a rank has in it';
    throw planError(plan, { asked, found: `${bytes} bytes`, todo });
  }
}

/** Throws LayoutError if a plan has been carried out and ranks do not shard parameters as it says. */
export function checkApplied(plan: Plan, model: Module): void {
  const planned = new Map(plan.parameters.map((parameter) => [parameter.name, parameter]));
  const sizes = new Map(plan.axes.map(({ name, size }) => [name, size]));
  const shared = (list: readonly string[]): string =>
    list
      .filter((axis) => sizes.get(axis) !== 1)
      .toSorted()
      .join(', ') || 'none';
  for (const [name, { part }] of model.namedParameters()) {
    const layout = planned.get(name)?.optimizer;
    if (layout === undefined || !isHeldAt(layout, ownPlace)) continue;
    const [said, done] = [shared(shardedAxes(layout)), shared(part.shardedOver)];
    if (said === done) continue;
    throw planError(plan, {
      asked: `by which ranks shard the updates of '${name}' over ${said}`,
      found: `they shard them over ${done} after it was carried out`,
      todo: 'Describe the optimizer states of each parameter in plan() in the way in which apply() divides them',
    });
  }
}

/** Throws ConfigError if a parameter was constructed as another part than the plan gives this rank. */
export function checkInitialParts({ strategy, parameters }: Plan, model: Module): void {
  const planned = new Map(parameters.map((parameter) => [parameter.name, parameter.parameter]));
  for (const [name, { initialPart, shape }] of model.namedParameters()) {
    const layout = planned.get(name);
    if (initialPart === null || layout === undefined) continue;
    const [kept, given] = [formatLayout(initialPart.layout), formatLayout(layout)];
    if (kept === given) continue;
    throw new ConfigError(
      {
        asked: `a parameter ${name} of shape ${formatShape(shape)} as ${given}, by ${strategy}`,
        found: `it was constructed in parts, and this rank kept its part of ${kept}`,
        todo: 'Give constructSharded the strategy that the model is parallelized with, or build it without constructSharded',
      },
      { parameter: name, shape, expected: layout, found: initialPart.layout },
    );
  }
}

/**
 * Throws LayoutError if a layer that balances experts by sequence sums over ranks to which a plan gives different
 * sequences. Such a sum would mix several sequences, and the loss would silently be wrong.
 */
export function checkSequences(plan: Plan, model: Module): void {
  const [batch = []] = plan.batch.dims;
  const split = new Set(plan.axes.filter(({ size }) => size > 1).map(({ name }) => name));
  for (const [path, module] of model.namedModules()) {
    const axis = sequenceAxesOf(module)?.find((each) => batch.includes(each) && split.has(each));
    if (axis === undefined) continue;
    throw planError(
      plan,
      {
        asked: `with '${path}', which balances experts by sequences that are spread over '${axis}'`,
        found: `the ranks of '${axis}' divide the batch, so they have different sequences`,
        todo: `Leave '${axis}' out of bySequence: each rank balances its own sequences, and their mean is that of all`,
      },
      { path, axis },
    );
  }
}
