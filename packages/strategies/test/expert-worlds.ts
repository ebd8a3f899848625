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
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
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

interface Outcome {
  steps: {
    loss: number;
    norm: number;
  }[];
  weights: Record<string, number[]>;
}

/** Runs every case for this number of ranks on this rank. */
async function trainPart({ rank, mesh }: RankInThread, own: Case): Promise<Outcome> {
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
  const steps = await trainSteps(model, forward, {
    start: part * count,
    count,
  });
  return { steps, weights: await weightsOf(model) };
}

async function weightsOf(model: nn.Module): Promise<Record<string, number[]>> {
  const state = Object.entries(await model.stateDict());
  return Object.fromEntries(
    state.map(([key, { bytes }]) => [key, [...new Float32Array(bytes.slice().buffer)]]),
  );
}

/** Adds the tests of a world of this size. */
export function testExpertWorld(size: number): void {
  describe(`experts among ${size} ranks`, () => {
    let alone: Outcome = { steps: [], weights: {} };

    beforeAll(async () => {
      const [trained] = await onRanks(
        1,
        async () => {
          manualSeed(0);
          const model = new ExpertModel(balanced([]));
          const steps = await trainSteps(model, (x) => model.forward(x), { start: 0, count: rows });
          return { steps, weights: await weightsOf(model) };
        },
        onCpu,
      );
      alone = trained ?? alone;
    });

    it.each(Object.entries(cases[size] ?? {}))('%s train as on one rank', async (_, own) => {
      const { tolerance = 5e-5 } = own;
      const options = { axes: own.axes, ...onCpu };
      const each = await onRanks(size, (place) => trainPart(place, own), options);
      alone.steps.forEach(({ loss, norm }: Step, step) => {
        const mean = each.reduce((sum, { steps }) => sum + (steps[step]?.loss ?? NaN), 0) / size;
        expect(Math.abs(mean / loss - 1), `loss of step ${step}`).toBeLessThan(tolerance);
        for (const { steps } of each) {
          const own = (steps[step]?.norm ?? NaN) / norm;
          expect(Math.abs(own - 1), `norm of step ${step}`).toBeLessThan(2 * tolerance);
        }
      });
      for (const { weights } of each) {
        expect(Object.keys(weights)).toEqual(Object.keys(alone.weights));
        for (const [key, expected] of Object.entries(alone.weights)) {
          weights[key]?.forEach((x, index) =>
            expect(Math.abs(x - (expected[index] ?? NaN)), key).toBeLessThan(2 * tolerance),
          );
        }
      }
    });
  });
}
