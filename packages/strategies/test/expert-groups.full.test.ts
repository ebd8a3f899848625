import { fromData, manualSeed, type MeshAxis, nn, ones, type Strategy } from '@shardwise/core';
import type { Parameter } from '@shardwise/core/extend';
import { compose, ddp, expertParallel, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

interface Grid {
  readonly axes: readonly MeshAxis[];
  readonly strategy: () => Strategy;
  /** The world ranks that route tokens of each share of the batch. */
  readonly shares: readonly (readonly number[])[];
}

const experts = 4;
/** The matrix is wide enough for every rank that shares it to have a part. */
const features = 2;
const apart = [
  { name: 'dp', size: 2 },
  { name: 'ep', size: 2 },
];
const folded = [
  { name: 'dp', size: 2 },
  { name: 'tp', size: 2 },
];
const overTp = { axis: 'tp', sameTokens: ['tp'], k: 1 };
const alone = [[0], [1], [2], [3]];
const pairs = [
  [0, 1],
  [2, 3],
];

const grids: Readonly<Record<string, Grid>> = {
  'ep 2, edp 2': {
    axes: apart,
    strategy: () => compose(expertParallel({ k: 1 }), ddp()),
    shares: alone,
  },
  'ep 4': {
    axes: apart,
    strategy: () => expertParallel({ axis: ['ep', 'dp'], k: 1 }),
    shares: alone,
  },
  'ep 2, edp 2, in parts': {
    axes: apart,
    strategy: () => compose(expertParallel({ k: 1 }), fsdp()),
    shares: alone,
  },
  'tp 2, ep 2, edp 2': {
    axes: folded,
    strategy: () => compose(expertParallel(overTp), ddp()),
    shares: pairs,
  },
  'tp 2, ep 2, edp 2, in parts': {
    axes: folded,
    strategy: () => compose(expertParallel(overTp), zero({ stage: 2 })),
    shares: pairs,
  },
  'tp 2, ep 4': {
    axes: folded,
    strategy: () => expertParallel({ axis: ['tp', 'dp'], sameTokens: ['tp'], k: 1 }),
    shares: pairs,
  },
};

/** Returns this rank's part of the gradient. */
async function gradientOf({ part }: Parameter): Promise<Set<number>> {
  return new Set(Array.from((await part.grad?.data()) ?? [], Number));
}

/** Each rank contributes 2^rank for every token that it routes, so a sum shows which ranks took part, and how often. */
describe('gradients of experts on four ranks', () => {
  it.each(Object.entries(grids))(
    'have what every rank gave, once: %s',
    async (_, { axes, strategy, shares }) => {
      await onRanks(
        4,
        async ({ rank: own }) => {
          manualSeed(0);
          const shared = new nn.Linear(features, features, { bias: false });
          const layer = new nn.MixtureOfExperts(features, 1, experts, {
            gate: nn.roundRobinGate({ k: 1 }),
            activation: 'relu',
            shared,
          });
          // Experts return their inputs.
          const { up } = layer.experts;
          up.assign(ones(up.shape).mul(1 / features));
          layer.router.weight.assign(layer.router.weight.mul(0));
          const parallel = await parallelize(layer, strategy());
          // The ranks of a share route the same number of tokens, so each expert has one token of each rank.
          const ranks = shares.find((share) => share.includes(own)) ?? [];
          const tokens = ranks.length * experts;
          const given = ranks.flatMap((rank) => Array.from({ length: experts }, () => 2 ** rank));
          const weights = fromData(Float32Array.from(given), [tokens, 1], 'f32');
          // The router weights every route by 1 / experts.
          parallel
            .forward(ones([tokens, features]))
            .mul(weights)
            .mul(experts)
            .sum()
            .backward();
          const everyRank = 1 + 2 + 4 + 8;
          // Each expert has a token of each rank. The mean is taken over the shares of the batch, not over the ranks that
          // have the expert.
          expect(await gradientOf(layer.experts.down)).toEqual(
            new Set([everyRank / shares.length]),
          );
          const tokensOfRank = experts;
          expect(await gradientOf(shared.weight)).toEqual(
            new Set([(everyRank * tokensOfRank * experts) / shares.length]),
          );
        },
        { axes },
      );
    },
  );
});
