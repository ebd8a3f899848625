import { singleGroup } from '@shardwise/collectives';
import {
  ConfigError,
  LineMesh,
  nn,
  ones,
  type ParallelModel,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import {
  compose,
  DataParallel,
  dataParallel,
  ddp,
  DistributedDataParallel,
  fsdp,
  parallelize,
  ShardedModel,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, expectTypeOf, it } from 'vitest';

beforeEach(() => setRank({ device: interpreter(), mesh: new LineMesh('dp', singleGroup()) }));

describe('parallelize gives what the strategy gives', () => {
  it('a DistributedDataParallel for ddp, of which the type knows the buckets', async () => {
    const parallel = await parallelize(new nn.Linear(3, 2), ddp());
    expectTypeOf(parallel).toExtend<DistributedDataParallel<nn.Linear, [x: Tensor], Tensor>>();
    expect(parallel).toBeInstanceOf(DistributedDataParallel);
    expect(parallel.buckets).toEqual([['bias', 'weight']]);
    expect(parallel.detach().weight.shape).toEqual([2, 3]);
  });

  it('a DataParallel for dataParallel', async () => {
    const parallel = await parallelize(new nn.Linear(3, 2), dataParallel());
    expectTypeOf(parallel).toExtend<DataParallel<nn.Linear, [x: Tensor], Tensor>>();
    expect(parallel).toBeInstanceOf(DataParallel);
    parallel.replicate();
  });

  it('a ShardedModel for zero and fsdp', async () => {
    for (const strategy of [zero({ stage: 2 }), fsdp()]) {
      const parallel = await parallelize(new nn.Linear(3, 2), strategy);
      expectTypeOf(parallel).toExtend<ShardedModel<nn.Linear, [x: Tensor], Tensor>>();
      expect(parallel).toBeInstanceOf(ShardedModel);
      expect(parallel.parameters.map(([name]) => name)).toEqual(['weight', 'bias']);
    }
  });

  it('a ParallelModel for one of several strategies, for compositions, and for your own', async () => {
    const model = new nn.Linear(3, 2);
    const own: Strategy<nn.Module> = {
      name: 'own',
      plan: (parameters, axes) => ddp().plan(parameters, axes),
      apply: (_plan, module) =>
        Promise.resolve({
          module,
          forward: (...inputs) => module.forward(...inputs),
          noSync: (body) => body(),
        }),
    };
    const parallel = await parallelize(new nn.Linear(3, 2), own);
    expectTypeOf(parallel).toEqualTypeOf<ParallelModel<nn.Linear, [x: Tensor], Tensor>>();
    expect(parallel.forward(ones([1, 3])).shape).toEqual([1, 2]);
    expectTypeOf(compose(tensorParallel({}), ddp())).toEqualTypeOf<Strategy<nn.Module>>();
    const either = await parallelize(model, Math.random() < 2 ? ddp() : fsdp());
    expectTypeOf(either).toEqualTypeOf<ParallelModel<nn.Linear, [x: Tensor], Tensor>>();
    expect(either.forward(ones([1, 3])).shape).toEqual([1, 2]);
  });
});

describe('what is no strategy is refused', () => {
  it.each([
    ['a function that makes one', ddp, /by the function ddp: no strategy\. Call it: .*ddp\(\)/],
    ['a name of one', 'ddp', /by 'ddp': no strategy\. Give what a function makes, as ddp\(\)/],
    ['nothing', undefined, /by undefined: no strategy/],
  ])('%s', async (_, strategy, says) => {
    const made = parallelize(new nn.Linear(3, 2), strategy as unknown as Strategy<nn.Module>);
    await expect(made).rejects.toThrow(ConfigError);
    await expect(made).rejects.toThrow(says);
  });
});
