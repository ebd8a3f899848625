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
  /** The world ranks that route tokens of each share of the batch. */
  readonly shares: readonly (readonly number[])[];
}

export const experts = 4;
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

/**
 * For each grid, the parts of the gradients that this rank has: of the experts, and of the parameters that all ranks
 * share. They show which ranks took part.
 */
export const found = z.record(
  z.string(),
  z.object({ experts: z.array(z.number()), shared: z.array(z.number()) }),
);

/** Each rank contributes 2^rank for every token that it routes. Experts return their inputs. */
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
