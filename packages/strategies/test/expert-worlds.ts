import { manualSeed, type MeshAxis, nn, type Strategy, type Tensor } from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  ddp,
  expertParallel,
  fsdp,
  parallelize,
  sequenceParallel,
  shard,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { expectAsOneRank, oncePerKey } from './as-one-rank.ts';
import { balanced, ExpertModel, rows, type Step, trainSteps } from './ranks/expert-models.ts';

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
const cases: Readonly<Record<number, Readonly<Record<string, Case>>>> = {
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

/** Trains on a rank of a case's mesh. */
async function trainPart({ rank, mesh }: RankInThread, own: Case) {
  const { axes, strategy, isCheckpointed = false, isFolded = false } = own;
  // All ranks must end up with rank 0's values.
  manualSeed(rank);
  const batchAxes = axes.filter(({ name: each }) => each !== 'tp');
  const routing = isFolded ? axes : batchAxes;
  const model = new ExpertModel(balanced(routing.map(({ name: each }) => each)));
  const parallel = await parallelize(model, strategy());
  const forward = (x: Tensor): Tensor =>
    isCheckpointed ? nn.checkpoint(() => parallel.forward(x)) : parallel.forward(x);
  const parts = batchAxes.reduce((product, { size }) => product * size, 1);
  const part = batchAxes.reduce((at, { name: each, size }) => at * size + mesh.coordinate(each), 0);
  const count = rows / parts;
  const steps = await trainSteps(model, forward, { start: part * count, count });
  return { ...listed(steps), state: await stateOf(model) };
}

const listed = (steps: readonly Step[]) => ({
  losses: steps.map(({ loss }) => loss),
  norms: steps.map(({ norm }) => norm),
});

/** Trains on one rank without a strategy. */
const alone = oncePerKey(async () => {
  manualSeed(0);
  const model = new ExpertModel(balanced([]));
  const steps = await trainSteps(model, (x) => model.forward(x), { start: 0, count: rows });
  return { ...listed(steps), state: await stateOf(model) };
}, onCpu);

/** Adds the tests of a world of this size. */
export function testExpertWorld(size: number): void {
  describe(`experts among ${size} ranks`, () => {
    it.each(Object.entries(cases[size] ?? {}))('%s train as on one rank', async (_, own) => {
      const { tolerance = 5e-5 } = own;
      const options = { axes: own.axes, ...onCpu };
      const ranks = await onRanks(size, (place) => trainPart(place, own), options);
      const expected = await alone(null);
      const ofState = { rtol: 0, atol: 2 * tolerance };
      expectAsOneRank(ranks, expected, { rtol: tolerance, atol: 0 }, ofState);
      expect(expected.norms).not.toHaveLength(0);
      for (const { norms } of ranks) {
        assertAllclose(norms, expected.norms, { rtol: 2 * tolerance, atol: 0 });
      }
    });
  });
}
