import { singleGroup } from '@shardwise/collectives';
import { LayoutError, type Mesh, nn, setRank, type Strategy, tensor } from '@shardwise/core';
import { replicated } from '@shardwise/core/extend';
import {
  applyPlan,
  compose,
  ddp,
  planFor,
  Step,
  type StepKind,
  stepKinds,
  stepsOf,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, expect, test } from 'vitest';

const mesh: Mesh = {
  axes: ['dp', 'ep'].map((name) => ({ name, size: 1 })),
  group: () => singleGroup(),
  coordinate: () => 0,
};

beforeEach(() => setRank({ device: interpreter(), mesh }));

interface Route {
  readonly axes: readonly string[];
}

/** A kind of step of another author: ranks have different batches, and one step does it for all axes. */
const route: StepKind<Route> = {
  name: 'route',
  collectives: () => [],
  follows: (_, other) => Step.is(other, stepKinds.distribute),
  axisUses: ({ axes }) => axes.map((axis) => ({ axis, divides: 'batch' })),
  merge: (outer, inner) => ({ data: { axes: [...outer.axes, ...inner.axes] }, place: 'inner' }),
  apply: () => {},
};

function routed(axis: string): Strategy {
  return {
    specificationVersion: 1,
    name: `routed over ${axis}`,
    plan: ({ parameters }, axes) => ({
      strategy: 'routed',
      axes,
      batch: { dims: [], partial: [] },
      parameters: parameters.map((each) => {
        const whole = replicated(each.shape);
        return { ...each, parameter: whole, gradient: whole, optimizer: whole };
      }),
      steps: [new Step(route, { axes: [axis] })],
    }),
  };
}

test('a step is refused before the one that it follows', async () => {
  const model = new nn.Sequential(new nn.Linear(2, 2));
  const plan = planFor(model, compose(routed('ep'), ddp()));
  const refusal = applyPlan({ ...plan, steps: plan.steps.toReversed() }, model);
  await expect(refusal).rejects.toThrow(LayoutError);
  await expect(refusal).rejects.toThrow(
    "with the step 'distribute': a step 'route' stands before it. Put 'distribute' before 'route'",
  );
});

test('compose puts a step behind those that it follows', async () => {
  const model = new nn.Sequential(new nn.Linear(2, 2));
  const plan = planFor(model, compose(routed('ep'), ddp()));
  expect(plan.steps.findIndex((step) => Step.is(step, route))).toBe(plan.steps.length - 1);
  await applyPlan(plan, model);
});

test('compose merges two steps into one if their kind can', () => {
  const model = new nn.Sequential(new nn.Linear(2, 2));
  const plan = planFor(model, compose(routed('ep'), routed('dp')));
  expect(stepsOf(plan, route).map(({ data }) => data.axes)).toEqual([['ep', 'dp']]);
});

test('inputs lie on an axis as the kinds of steps say', async () => {
  const model = new nn.Sequential(new nn.Linear(2, 2));
  const parallel = await applyPlan(planFor(model, routed('ep')), model);
  const inputs = tensor([[1, 2]]);
  parallel.forward(inputs);
  expect(inputs.node.axisTypes?.byAxis.get('ep')).toBe('varying');
  expect(inputs.node.axisTypes?.byAxis.has('dp')).toBe(false);
});
