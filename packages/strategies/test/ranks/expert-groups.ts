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
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';

interface Grid {
  readonly axes: readonly MeshAxis[];
  readonly strategy: () => Strategy;
  /** Which ranks of the world route tokens of each share of the batch. */
  readonly shares: readonly (readonly number[])[];
}

export const experts = 4;
/** So that ranks which share out a matrix have some of it each. */
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

export const grids: Readonly<Record<string, Grid>> = {
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

/** By grid: what each rank has of the gradients that tell who took part, of the experts it has and of all that ranks share. */
export const found = z.record(
  z.string(),
  z.object({ experts: z.array(z.number()), shared: z.array(z.number()) }),
);

/** Each rank gives 2^rank for each token that it routes; experts pass on what they are given. */
export async function main(context: RankContext): Promise<z.infer<typeof found>> {
  const { group } = await join(context);
  const { backend: device } = currentSession();
  const results: z.infer<typeof found> = {};
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
    // Each rank that routes tokens of a share has as many, so that each expert has one of each rank.
    const share = shares.findIndex((ranks) => ranks.includes(context.rank));
    const ranks = shares[share] ?? [];
    const tokens = ranks.length * experts;
    const given = ranks.flatMap((rank) => Array.from({ length: experts }, () => 2 ** rank));
    const weights = fromData(Float32Array.from(given), [tokens, 1], 'f32');
    // Routes are weighed by shares of 1 / experts.
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

/** What this rank has of it. */
async function gradientOf({ part }: Parameter): Promise<number[]> {
  return Array.from((await part.grad?.data()) ?? [], Number);
}
