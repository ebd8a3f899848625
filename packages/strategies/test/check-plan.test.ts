import { singleGroup } from '@shardwise/collectives';
import {
  type CollectivePlan,
  type Layout,
  LineMesh,
  nn,
  type Plan,
  setRank,
  type Strategy,
} from '@shardwise/core';
import { Step, type StepKind, ddp, explain, parallelize, planFor } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) }));

const layout: Layout = { dims: [[], []], partial: [] };

/** DDP with a plan that does not describe what DDP does. */
function lying(change: (plan: Plan) => Partial<Plan>): Strategy {
  const honest = ddp();
  return {
    ...honest,
    plan: (model, axes) => {
      const plan = honest.plan(model, axes);
      return { ...plan, ...change(plan) };
    },
  };
}

/** Changes the plan to give every parameter this layout. */
function saying(other: Layout): (plan: Plan) => Partial<Plan> {
  return ({ parameters }) => ({
    parameters: parameters.map((parameter) => ({ ...parameter, parameter: other })),
  });
}

/** Changes the plan to a single step with this collective. */
function sending(collective: CollectivePlan): (plan: Plan) => Partial<Plan> {
  const kind: StepKind<object> = {
    name: 'send',
    collectives: () => [collective],
    apply: () => {},
  };
  return () => ({ steps: [new Step(kind, {})] });
}

const lies: Readonly<
  Record<string, readonly [change: (plan: Plan) => Partial<Plan>, says: string]>
> = {
  'an axis that there is not': [
    saying({ ...layout, dims: [['xx'], []] }),
    "the layout 'parameter' of 'weight': the axis 'xx', and the mesh has dp",
  ],
  'an axis twice': [saying({ ...layout, dims: [['dp'], ['dp']] }), 'an axis twice: dp, dp'],
  'another number of dims': [
    saying({ ...layout, dims: [[]] }),
    '1 dims, and its shape is [2, 2]. Give dims a list of axes for each dim',
  ],
  'a collective over another axis': [
    sending({ operation: 'allReduce', axis: 'nope', when: 'backward', parameters: [], bytes: 1 }),
    "the collective allReduce: the axis 'nope'",
  ],
  'a collective of another parameter': [
    sending({ operation: 'allReduce', axis: 'dp', when: 'backward', parameters: ['w'], bytes: 1 }),
    "the collective allReduce: the parameter 'w'",
  ],
  'fewer bytes than none': [
    sending({ operation: 'allReduce', axis: 'dp', when: 'backward', parameters: [], bytes: -5 }),
    '-5 bytes',
  ],
};

describe.each(Object.entries(lies))('a plan that says %s', (_, [change, says]) => {
  it('is refused by explain and parallelize', async () => {
    const model = new nn.Linear(2, 2, { bias: false });
    const strategy = lying(change);
    const plan = planFor(model, strategy);
    expect(() => explain(plan)).toThrow(says);
    await expect(parallelize(model, strategy)).rejects.toThrow(says);
  });
});
