import { createMesh } from '@shardwise/collectives';
import { manualSeed, nn, optim, setRank, type Strategy, subscribe } from '@shardwise/core';
import { collectivesOf, expertParallel, explain, parallelize } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { batch, ExpertModel, features } from './ranks/expert-models.ts';

const tokens = 8;

interface Traffic {
  planned: string[];
  sent: string[];
  explained: string;
}

interface Found extends Traffic {
  /** The messages when the ranks have the same tokens and each rank routes a part of them. */
  folded: Traffic;
  /** Gradients when the ranks have different numbers of tokens. */
  uneven: number[];
}

async function observe({ rank, size, group, device }: RankInThread): Promise<Found> {
  const apart = await messages(expertParallel({ tokens }), rank * tokens);
  const few = await uneven(rank);
  setRank({ device, mesh: await createMesh(group, [{ name: 'tp', size }]) });
  const over = { axis: 'tp', sameTokens: ['tp'], tokens: 2 * tokens };
  return { ...apart, uneven: few, folded: await messages(expertParallel(over), 0, 2 * tokens) };
}

/** Returns the messages of a step in which all experts have the same number of tokens. */
async function messages(strategy: Strategy, start: number, count = tokens): Promise<Traffic> {
  manualSeed(0);
  const model = new ExpertModel({ gate: nn.roundRobinGate() });
  const parallel = await parallelize(model, strategy);
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const sent: string[] = [];
  const step = async (): Promise<void> => {
    optimizer.zeroGrad();
    parallel
      .forward(batch(0, start, count))
      .square()
      .mean()
      .backward();
    await optimizer.step();
  };
  await step();
  const unsubscribe = subscribe(({ category, name, bytes = 0 }) => {
    if (category !== 'collective') return;
    sent.push(`${name === 'allToAllRows' ? 'allToAll' : name} ${bytes}`);
  });
  await step();
  unsubscribe();
  const planned = collectivesOf(parallel.plan)
    .filter(({ when }) => when !== 'start')
    .map(({ operation, bytes }) => `${operation} ${bytes}`);
  return { planned: planned.toSorted(), sent: sent.toSorted(), explained: explain(parallel.plan) };
}

/**
 * Returns the whole gradient of the first matrix of the experts. The loss is a sum over 2 tokens on rank 0 and none on
 * the other ranks.
 */
async function uneven(rank: number): Promise<number[]> {
  manualSeed(0);
  const layer = new nn.MixtureOfExperts(features, 4, 4, { gate: nn.switchGate() });
  const parallel = await parallelize(layer, expertParallel({ k: 1, tokens: 2 }));
  parallel
    .forward(batch(0, 0, rank === 0 ? 2 : 0))
    .square()
    .sum()
    .backward();
  return Array.from((await layer.experts.up.grad?.data()) ?? [], Number);
}

/** Shards experts over two axes. The ranks of one axis have the same tokens. */
async function observeGrid({ mesh }: RankInThread): Promise<Traffic> {
  const own = 2 * tokens;
  const strategy = expertParallel({ axis: ['tp', 'dp'], sameTokens: ['tp'], tokens: own });
  return messages(strategy, mesh.coordinate('dp') * own, own);
}

describe('expertParallel on two ranks', () => {
  let ranks: readonly Found[] = [];

  beforeAll(async () => {
    ranks = await onRanks(2, observe, { axes: [{ name: 'ep', size: 2 }] });
  });

  it('expertParallel on two ranks sends what the plan says: two all-to-alls of rows in forward and in backward, one of counts', () => {
    for (const { planned, sent } of ranks) expect(sent).toEqual(planned);
    const rowBytes = tokens * 2 * features * 4;
    const ofRows = ranks[0]?.sent.filter((each) => each === `allToAll ${rowBytes}`);
    // The model has two layers.
    expect(ofRows).toHaveLength(8);
    expect(ranks[0]?.sent.filter((each) => each.startsWith('allToAll'))).toHaveLength(10);
  });

  it('explains which messages travel, and what each rank keeps', () => {
    const text = ranks[0]?.explained ?? '';
    expect(text).toMatch(/experts\.up +f32 +\[8, 8, 12\] +shard\(0: ep\) +shard\(0: ep\) +1536/);
    expect(text).toMatch(/router\.weight +f32 +\[8, 8\] +replicate +replicate +256/);
    expect(text).toMatch(/experts +1 +tokens to experts +ep +allToAll +allToAll +512/);
  });

  it('expertParallel on two ranks sends what the plan says where ranks have the same tokens, too', () => {
    for (const { folded } of ranks) expect(folded.sent).toEqual(folded.planned);
    const sent = ranks[0]?.folded.sent ?? [];
    // Both ranks have the same 16 tokens, and each routes 8 of them.
    expect(sent.filter((each) => each === `allToAll ${tokens * 2 * features * 4}`)).toHaveLength(8);
    // The gathers are of the outputs of two layers, and of the gradients of their inputs.
    const gathered = `allGather ${2 * tokens * features * 4}`;
    expect(sent.filter((each) => each === gathered)).toHaveLength(4);
    const text = ranks[0]?.folded.explained ?? '';
    expect(text).toMatch(/experts\.up +f32 +\[8, 8, 12\] +shard\(0: tp\)/);
  });

  it('expertParallel on two ranks sends what the plan says over two axes, one after the other', async () => {
    const axes = ['dp', 'tp'].map((name) => ({ name, size: 2 }));
    for (const { planned, sent } of await onRanks(4, observeGrid, { axes })) {
      expect(sent).toEqual(planned);
      // There are two layers and two axes, with two messages each in forward and in backward.
      const rows = sent.filter((each) => each === `allToAll ${tokens * 2 * features * 4}`);
      expect(rows).toHaveLength(16);
    }
  });

  it('expertParallel on two ranks has gradients of all tokens’ experts where ranks have no tokens', async () => {
    const [alone = []] = await onRanks(1, async () => {
      manualSeed(0);
      const layer = new nn.MixtureOfExperts(features, 4, 4, { gate: nn.switchGate() });
      layer
        .forward(batch(0, 0, 2))
        .square()
        .sum()
        .backward();
      return Array.from((await layer.experts.up.grad?.data()) ?? [], Number);
    });
    expect(alone).not.toHaveLength(0);
    // The gradient is the mean over two ranks.
    for (const { uneven } of ranks) {
      expect(uneven).toHaveLength(alone.length);
      uneven.forEach((x, index) => expect(x).toBeCloseTo((alone[index] ?? NaN) / 2, 6));
    }
  });
});
