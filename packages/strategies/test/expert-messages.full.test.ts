import { manualSeed, nn, optim, type Strategy, subscribe } from '@shardwise/core';
import { collectivesOf, expertParallel, explain, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { valuesOf } from '../../../test/support/model-values.ts';
import { batch, ExpertModel, features } from './ranks/expert-models.ts';

const tokens = 8;

/** The message of the rows that a rank routes to the experts of one layer, each to two. */
const rowsToExperts = `allToAll ${tokens * 2 * features * 4}`;

/**
 * Expects that a step in which all experts have the same number of tokens sends what its plan says. Returns the messages,
 * and the plan as text.
 */
async function messages(strategy: Strategy, start: number, count = 2 * tokens) {
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
  expect(sent.toSorted()).toEqual(planned.toSorted());
  return { sent, explained: explain(parallel.plan) };
}

/** Counts messages of one kind. */
const countOf = (sent: readonly string[], kind: string): number =>
  sent.filter((each) => each.startsWith(kind)).length;

describe('expertParallel sends what the plan says', () => {
  it('on two ranks: two all-to-alls of rows in forward and in backward, one of counts, which the plan explains with what each rank keeps', async () => {
    await onRanks(
      2,
      async ({ rank }) => {
        const { sent, explained } = await messages(
          expertParallel({ tokens }),
          rank * tokens,
          tokens,
        );
        // The model has two layers.
        expect(countOf(sent, rowsToExperts)).toBe(8);
        expect(countOf(sent, 'allToAll')).toBe(10);
        expect(explained).toMatch(
          /experts\.up +f32 +\[8, 8, 12\] +shard\(0: ep\) +shard\(0: ep\) +1536/,
        );
        expect(explained).toMatch(/router\.weight +f32 +\[8, 8\] +replicate +replicate +256/);
        expect(explained).toMatch(/experts +1 +tokens to experts +ep +allToAll +allToAll +512/);
      },
      { axes: [{ name: 'ep', size: 2 }] },
    );
  });

  it('on two ranks that have the same tokens, of which each routes a part', async () => {
    await onRanks(
      2,
      async () => {
        const strategy = expertParallel({ axis: 'tp', sameTokens: ['tp'], tokens: 2 * tokens });
        const { sent, explained } = await messages(strategy, 0);
        // Both ranks have the same 16 tokens, and each routes 8 of them.
        expect(countOf(sent, rowsToExperts)).toBe(8);
        // The gathers are of the outputs of two layers, and of the gradients of their inputs.
        expect(countOf(sent, `allGather ${2 * tokens * features * 4}`)).toBe(4);
        expect(explained).toMatch(/experts\.up +f32 +\[8, 8, 12\] +shard\(0: tp\)/);
      },
      { axes: [{ name: 'tp', size: 2 }] },
    );
  });

  it('over two axes, one after the other, of which the ranks of one have the same tokens', async () => {
    await onRanks(
      4,
      async ({ mesh }) => {
        const own = 2 * tokens;
        const options = { axis: ['tp', 'dp'], sameTokens: ['tp'], tokens: own };
        const { sent } = await messages(expertParallel(options), mesh.coordinate('dp') * own);
        // There are two layers and two axes, with two messages each in forward and in backward.
        expect(countOf(sent, rowsToExperts)).toBe(16);
      },
      { axes: ['dp', 'tp'].map((name) => ({ name, size: 2 })) },
    );
  });
});

it('experts among two ranks have gradients of all tokens where a rank has no tokens', async () => {
  /** The whole gradient of the first matrix of the experts, for the sum over so many tokens. */
  const gradientFor = async (count: number, isDivided: boolean): Promise<number[]> => {
    manualSeed(0);
    const layer = new nn.MixtureOfExperts(features, 4, 4, { gate: nn.switchGate() });
    const model = isDivided ? await parallelize(layer, expertParallel({ k: 1, tokens: 2 })) : layer;
    model
      .forward(batch(0, 0, count))
      .square()
      .sum()
      .backward();
    return valuesOf(layer.experts.up.grad ?? expect.fail('no gradient'));
  };
  const [alone = []] = await onRanks(1, () => gradientFor(2, false));
  expect(alone).not.toHaveLength(0);
  const axes = [{ name: 'ep', size: 2 }];
  const ranks = await onRanks(2, ({ rank }) => gradientFor(rank === 0 ? 2 : 0, true), { axes });
  // The gradient is the mean over two ranks.
  for (const found of ranks) {
    expect(found).toHaveLength(alone.length);
    found.forEach((x, index) => expect(x).toBeCloseTo((alone[index] ?? NaN) / 2, 6));
  }
});
