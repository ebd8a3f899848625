import { singleGroup } from '@shardwise/collectives';
import { LineMesh, type Model, nn, ones, setRank, Tensor } from '@shardwise/core';
import {
  applyPlan,
  type ModelPlan,
  planFor,
  ddp,
  Step,
  type StepKind,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) }));

/** A kind of step that changes the inputs and the outputs of forward passes. */
function around(change: (x: Tensor) => Tensor): StepKind<object> {
  return {
    name: 'around',
    collectives: () => [],
    apply(_, { hooks }) {
      hooks.push({
        forward: (run, inputs) => changed(run(...changed(inputs))),
      });
    },
  };

  function changed<T>(value: T): T;
  function changed(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each: unknown) => changed(each));
    return value instanceof Tensor ? change(value) : value;
  }
}

class Identity extends nn.Module implements Model<[x: Tensor], Tensor> {
  /** Shape: N -> N. */
  forward(x: Tensor): Tensor {
    return x;
  }
}

describe('steps that stand around the forward pass', () => {
  it('all do: the first one is the outermost', async () => {
    const model = new Identity();
    const plan: ModelPlan = {
      ...planFor(model, ddp()),
      steps: [
        new Step(
          around((x) => x.mul(2)),
          {},
        ),
        new Step(
          around((x) => x.add(1)),
          {},
        ),
      ],
    };
    const parallel = await applyPlan(plan, model);
    // 1 · 2, + 1, + 1, · 2
    expect(await parallel.forward(ones([])).item()).toBe(8);
  });
});
