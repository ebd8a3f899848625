import { cpu } from '@shardwise/backend-cpu';
import { LayoutError, type MeshAxis, nn, setRank } from '@shardwise/core';
import { collectivesOf, compose, ddp, expertParallel, fsdp, planFor } from '@shardwise/strategies';
import { beforeEach, describe, expect, it } from 'vitest';
import { ExpertModel } from './ranks/expert-models.ts';

describe('a plan of expertParallel', () => {
  const model = (): ExpertModel => new ExpertModel({ gate: nn.topKGate() });
  const planOn = (axes: readonly MeshAxis[], own = model()): (() => unknown) => {
    const strategy = expertParallel();
    const parameters = own.namedParameters().map(([name, { shape, dtype }]) => {
      return { name, shape, dtype, requiresGrad: true };
    });
    return () => strategy.plan({ parameters }, axes);
  };

  beforeEach(async () => setRank({ device: await cpu() }));

  it('is refused where ranks do not divide experts', () => {
    const plan = planOn([{ name: 'ep', size: 3 }]);
    expect(plan).toThrow(LayoutError);
    expect(plan).toThrow(/experts.*over 3 ranks along dim 0.*Pad it to|8 elements/);
  });

  it('is refused without the axis, and for a model without experts', () => {
    expect(planOn([{ name: 'dp', size: 2 }])).toThrow("'ep'");
    expect(() => planFor(new nn.Linear(2, 2), expertParallel({ axis: 'dp' }))).toThrow(LayoutError);
  });

  it('goes before what shares out the batch on other axes', () => {
    const axes = [
      { name: 'dp', size: 2 },
      { name: 'ep', size: 2 },
    ];
    const parameters = model()
      .namedParameters()
      .map(([name, { shape, dtype }]) => ({ name, shape, dtype, requiresGrad: true }));
    const plan = compose(expertParallel(), fsdp()).plan({ parameters }, axes);
    expect(plan.batch.dims).toEqual([['ep', 'dp']]);
    const up = plan.parameters.find(({ name }) => name === 'experts.experts.up');
    expect(up?.parameter.dims).toEqual([['ep', 'dp'], [], []]);
    expect(() => compose(ddp(), expertParallel()).plan({ parameters }, axes)).toThrow(
      'Put what shares out the batch last',
    );
  });

  it('averages over the axis every gradient but those of experts', () => {
    const axes = [{ name: 'ep', size: 2 }];
    const parameters = model()
      .namedParameters()
      .map(([name, { shape, dtype }]) => ({ name, shape, dtype, requiresGrad: true }));
    const plan = expertParallel().plan({ parameters }, axes);
    const averaged = collectivesOf(plan).filter(({ operation }) => operation === 'allReduce');
    expect(averaged.map(({ parameters: [name] }) => name)).toEqual(
      parameters.map(({ name }) => name).filter((name) => !/experts\.(up|down|gate)$/.test(name)),
    );
  });
});
