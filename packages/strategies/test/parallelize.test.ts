import { singleGroup } from '@shardwise/collectives';
import {
  ConfigError,
  LineMesh,
  type Mesh,
  nn,
  ones,
  type ParallelModel,
  type ProcessGroup,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  PlannedModel,
  compose,
  dataParallel,
  ddp,
  fsdp,
  parallelize,
  stepKinds,
  stepsOf,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, expectTypeOf, it } from 'vitest';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) }));

describe('parallelize gives a model that trains as its plan says', () => {
  it.each([
    ['ddp', ddp()],
    ['zero', zero({ stage: 2 })],
    ['fsdp', fsdp()],
    ['dataParallel', dataParallel()],
    ['tensor parallelism and ddp', compose(tensorParallel({}, { axis: 'tp' }), ddp())],
  ])('of %s', async (_, strategy) => {
    setRank({ device: interpreter(), mesh: new OneRankMesh() });
    const parallel = await parallelize(new nn.Linear(3, 2), strategy);
    expectTypeOf(parallel).toExtend<ParallelModel<nn.Linear, [x: Tensor], Tensor>>();
    expect(parallel).toBeInstanceOf(PlannedModel);
    expect(parallel.plan.parameters.map(({ name }) => name)).toEqual(['weight', 'bias']);
    expect(parallel.forward(ones([1, 3])).shape).toEqual([1, 2]);
    parallel.replicate();
  });

  it('of ddp, whose plan says which gradients leave together', async () => {
    const parallel = await parallelize(new nn.Linear(3, 2), ddp());
    const buckets = stepsOf(parallel.plan, stepKinds.reduce).map(({ data }) => data.parameters);
    expect(buckets).toEqual([['bias', 'weight']]);
    expect(parallel.detach().weight.shape).toEqual([2, 3]);
  });

  it('of your own strategy, which need not do anything', async () => {
    const own: Strategy = {
      specificationVersion: 1,
      name: 'own',
      plan: (model, axes) => ({ ...ddp().plan(model, axes), steps: [] }),
    };
    const parallel = await parallelize(new nn.Linear(3, 2), own);
    expect(parallel.forward(ones([1, 3])).shape).toEqual([1, 2]);
  });
});

/** A mesh with one rank along every axis. */
class OneRankMesh implements Mesh {
  readonly axes = ['dp', 'tp'].map((name) => ({ name, size: 1 }));

  group(): ProcessGroup {
    return singleGroup();
  }

  coordinate(): number {
    return 0;
  }
}

describe('what is no strategy is refused', () => {
  it.each([
    ['a function that makes one', ddp, /by the function ddp: no strategy\. Call it: .*ddp\(\)/],
    ['a name of one', 'ddp', /by 'ddp': no strategy\. Give a strategy, such as ddp\(\)/],
    ['nothing', undefined, /by undefined: no strategy/],
  ])('%s', async (_, strategy, says) => {
    const made = parallelize(new nn.Linear(3, 2), strategy as unknown as Strategy);
    await expect(made).rejects.toThrow(ConfigError);
    await expect(made).rejects.toThrow(says);
  });
});
