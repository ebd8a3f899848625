import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld } from '@shardwise/collectives';
import { LayoutError, manualSeed, type MeshAxis, nn, setRank } from '@shardwise/core';
import { collectivesOf, compose, ddp, expertParallel, fsdp, planFor } from '@shardwise/strategies';
import { spawnRanks } from '@shardwise/testing/node';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { batch, ExpertModel, features } from './ranks/expert-models.ts';
import { found, tokens } from './ranks/expert-messages.ts';

describe('expertParallel on two ranks', () => {
  let ranks: readonly z.infer<typeof found>[] = [];

  beforeAll(async () => {
    const results = await spawnRanks(2, new URL('./ranks/expert-messages.ts', import.meta.url), {
      world: createThreadsWorld({ size: 2, arenaBytes: 16 * 1024 * 1024 }),
    });
    ranks = z.array(found).length(2).parse(results);
  });

  it('sends what the plan says: two all-to-alls of rows in forward and in backward, one of counts', () => {
    for (const { planned, sent } of ranks) expect(sent).toEqual(planned);
    const rowBytes = tokens * 2 * features * 4;
    const ofRows = ranks[0]?.sent.filter((each) => each === `allToAll ${rowBytes}`);
    // Of two layers.
    expect(ofRows).toHaveLength(8);
    expect(ranks[0]?.sent.filter((each) => each.startsWith('allToAll'))).toHaveLength(10);
  });

  it('explains which messages travel, and what each rank keeps', () => {
    const text = ranks[0]?.explained ?? '';
    expect(text).toMatch(/experts\.up +f32 +\[8, 8, 12\] +shard\(0: ep\) +shard\(0: ep\) +1536/);
    expect(text).toMatch(/router\.weight +f32 +\[8, 8\] +replicate +replicate +256/);
    expect(text).toMatch(/experts +1 +tokens to experts +ep +allToAll +allToAll +512/);
  });

  it('has gradients of all tokens’ experts where ranks have no tokens', async () => {
    setRank({ device: await cpu() });
    manualSeed(0);
    const layer = new nn.MixtureOfExperts(features, 4, 4, { gate: nn.switchGate() });
    layer
      .forward(batch(0, 0, 2))
      .square()
      .sum()
      .backward();
    const alone = Array.from((await layer.experts.up.grad?.data()) ?? [], Number);
    // The mean over two ranks.
    for (const { uneven } of ranks) {
      expect(uneven).toHaveLength(alone.length);
      uneven.forEach((x, index) => expect(x).toBeCloseTo((alone[index] ?? NaN) / 2, 6));
    }
  });
});

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
