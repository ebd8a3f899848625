import { createMesh } from '@shardwise/collectives';
import {
  fromData,
  manualSeed,
  type MeshAxis,
  nn,
  ones,
  setRank,
  type Strategy,
} from '@shardwise/core';
import { currentSession, type Parameter } from '@shardwise/core/extend';
import { compose, ddp, expertParallel, fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';

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

/**
 * For each grid, the parts of the gradients that this rank has: of the experts, and of the parameters that all ranks
 * share. They show which ranks took part.
 */
type Found = Record<
  string,
  {
    experts: number[];
    shared: number[];
  }
>;

/** Each rank contributes 2^rank for every token that it routes. Experts return their inputs. */
async function observe(context: RankInThread): Promise<Found> {
  const { group } = context;
  const { backend: device } = currentSession();
  const results: Found = {};
  for (const [name, { axes, strategy, shares }] of Object.entries(grids)) {
    setRank({ device, mesh: await createMesh(group, axes) });
    manualSeed(0);
    const shared = new nn.Linear(features, features, { bias: false });
    const layer = new nn.MixtureOfExperts(features, 1, experts, {
      gate: nn.roundRobinGate({ k: 1 }),
      activation: 'relu',
      shared,
    });
    const { up } = layer.experts;
    up.assign(ones(up.shape).mul(1 / features));
    layer.router.weight.assign(layer.router.weight.mul(0));
    const parallel = await parallelize(layer, strategy());
    // The ranks of a share route the same number of tokens, so each expert has one token of each rank.
    const share = shares.findIndex((ranks) => ranks.includes(context.rank));
    const ranks = shares[share] ?? [];
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
    results[name] = {
      experts: await gradientOf(layer.experts.down),
      shared: await gradientOf(shared.weight),
    };
  }
  return results;
}

/** Returns this rank's part of the gradient. */
async function gradientOf({ part }: Parameter): Promise<number[]> {
  return Array.from((await part.grad?.data()) ?? [], Number);
}

/** Each rank contributes 2^rank, so a sum shows which ranks took part, and how often. */
describe('gradients of experts on four ranks', () => {
  let ranks: readonly Found[] = [];

  beforeAll(async () => {
    ranks = await onRanks(4, observe);
  });

  it.each(Object.entries(grids))('have what every rank gave, once: %s', (name, { shares }) => {
    const everyRank = 1 + 2 + 4 + 8;
    const each = ranks.flatMap((rank) => rank[name] ?? []);
    expect(each).toHaveLength(4);
    for (const own of each) {
      // Each expert has a token of each rank. The mean is taken over the shares of the batch, not over the ranks that
      // have the expert.
      expect(new Set(own.experts)).toEqual(new Set([everyRank / shares.length]));
      const tokensOfRank = experts;
      expect(new Set(own.shared)).toEqual(
        new Set([(everyRank * tokensOfRank * experts) / shares.length]),
      );
    }
  });
});
