import { createMesh } from '@shardwise/collectives';
import {
  manualSeed,
  type MeshAxis,
  nn,
  setRank,
  type Strategy,
  type Tensor,
} from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import {
  compose,
  ddp,
  expertParallel,
  fsdp,
  parallelize,
  tensorParallel,
  colwiseParallel,
  sequenceParallel,
  shard,
  zero,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { balanced, ExpertModel, rows, trainSteps } from './expert-models.ts';

interface Case {
  readonly axes: readonly MeshAxis[];
  readonly strategy: () => Strategy;
  readonly isCheckpointed?: true;
  /** Whether the ranks of `tp` route parts of their tokens. */
  readonly isFolded?: true;
  /** The tolerance relative to the result of one rank. Default: 5e-5. */
  readonly tolerance?: number;
}

const axis = (name: string, size: number): MeshAxis => ({ name, size });
const halves = { parameterDtype: 'bf16' } as const;
const two = [axis('dp', 2), axis('ep', 2)];
const folded = [axis('dp', 2), axis('tp', 2)];
const overTp = { axis: 'tp', sameTokens: ['tp'] };
const overBoth = { axis: ['tp', 'dp'], sameTokens: ['tp'] };
/** Styles for a layer whose tokens the ranks of `tp` share. */
const amongParts = tensorParallel({
  'others.shared': colwiseParallel({ input: shard(-2), output: shard(-2) }),
  norm: sequenceParallel({ dim: -2, input: 'invariant', output: 'invariant' }),
});

/** Meshes and compositions of expert parallelism, by the number of ranks that they need. */
export const cases: Readonly<Record<number, Readonly<Record<string, Case>>>> = {
  2: {
    ep: { axes: [axis('ep', 2)], strategy: () => expertParallel() },
    'ep with activation checkpointing': {
      axes: [axis('ep', 2)],
      strategy: () => expertParallel(),
      isCheckpointed: true,
    },
    'ep × bf16': {
      axes: [axis('dp', 1), axis('ep', 2)],
      strategy: () => compose(expertParallel(), fsdp({ mixedPrecision: halves })),
      tolerance: 0.05,
    },
    'experts over tp': {
      axes: [axis('tp', 2)],
      strategy: () => expertParallel(overTp),
      isFolded: true,
    },
    'ep of one rank × ddp': {
      axes: [axis('dp', 2), axis('ep', 1)],
      strategy: () => compose(expertParallel(), ddp()),
    },
  },
  4: {
    'experts over tp × dp': {
      axes: folded,
      strategy: () => expertParallel(overBoth),
      isFolded: true,
    },
    'tp × experts over tp × dp': {
      axes: folded,
      strategy: () => compose(amongParts, expertParallel(overBoth)),
      isFolded: true,
    },
    'tp × experts over tp × FSDP': {
      axes: folded,
      strategy: () => compose(amongParts, expertParallel(overTp), fsdp()),
      isFolded: true,
    },
    'tp × experts over tp × ZeRO-1': {
      axes: folded,
      strategy: () => compose(amongParts, expertParallel(overTp), zero({ stage: 1 })),
      isFolded: true,
    },
    'ep over two axes': {
      axes: [axis('dp', 2), axis('ep', 2)],
      strategy: () => expertParallel({ axis: ['ep', 'dp'] }),
    },
    ep: { axes: [axis('ep', 4)], strategy: () => expertParallel() },
    'ep × ddp': { axes: two, strategy: () => compose(expertParallel(), ddp()) },
    'ep × ZeRO-1': { axes: two, strategy: () => compose(expertParallel(), zero({ stage: 1 })) },
    'ep × ZeRO-2': { axes: two, strategy: () => compose(expertParallel(), zero({ stage: 2 })) },
    'ep × ZeRO-3': { axes: two, strategy: () => compose(expertParallel(), zero({ stage: 3 })) },
    'ep × FSDP': { axes: two, strategy: () => compose(expertParallel(), fsdp()) },
    'tp × ep': {
      axes: [axis('ep', 2), axis('tp', 2)],
      strategy: () =>
        compose(
          tensorParallel({ 'others.shared': colwiseParallel({ output: 'invariant' }) }),
          expertParallel(),
        ),
    },
  },
};

export const outcome = z.object({
  steps: z.array(z.object({ loss: z.number(), norm: z.number() })),
  weights: z.record(z.string(), z.array(z.number())),
});
export const outcomes = z.record(z.string(), outcome);
export type Outcome = z.infer<typeof outcome>;

/** Runs every case for this number of ranks on this rank. */
export async function main(context: RankContext): Promise<z.infer<typeof outcomes>> {
  const { group } = await join(context);
  const { backend: device } = currentSession();
  const found: Record<string, Outcome> = {};
  for (const [name, own] of Object.entries(cases[context.size] ?? {})) {
    const { axes, strategy, isCheckpointed = false, isFolded = false } = own;
    const mesh = await createMesh(group, axes);
    setRank({ device, mesh });
    // All ranks must end up with rank 0's values.
    manualSeed(context.rank);
    const batchAxes = axes.filter(({ name: each }) => each !== 'tp');
    const routing = isFolded ? axes : batchAxes;
    const model = new ExpertModel(balanced(routing.map(({ name: each }) => each)));
    const parallel = await parallelize(model, strategy());
    const forward = (x: Tensor): Tensor =>
      isCheckpointed ? nn.checkpoint(() => parallel.forward(x)) : parallel.forward(x);
    const parts = batchAxes.reduce((product, { size }) => product * size, 1);
    const part = batchAxes.reduce(
      (at, { name: each, size }) => at * size + mesh.coordinate(each),
      0,
    );
    const count = rows / parts;
    const steps = await trainSteps(model, forward, {
      start: part * count,
      count,
    });
    const state = await model.stateDict();
    const weights = Object.entries(state).map(([key, { bytes }]) => {
      return [key, [...new Float32Array(bytes.slice().buffer)]] as [string, number[]];
    });
    found[name] = { steps, weights: Object.fromEntries(weights) };
  }
  return found;
}
