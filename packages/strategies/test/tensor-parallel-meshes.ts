import { manualSeed, type nn, optim, type Strategy, type Tensor } from '@shardwise/core';
import { compose, ddp, fsdp, parallelize, tensorParallel, zero } from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { hashOf } from '../../../test/support/model-values.ts';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { meanOverRanks, oncePerKey } from './as-one-rank.ts';
import { batchOf, sequences, type Training, trainings } from './ranks/tensor-parallel-models.ts';

const maxNorm = 0.5;

/** The results of a training on one rank. */
interface Trained {
  losses: number[];
  /** The norms of all gradients together before clipping. */
  norms: number[];
  /** The SHA-256 of all whole parameters at the end. */
  hash: string;
}
/** The strategies that shard the batch if the mesh has an axis for it. */
const dataParallel: Readonly<Record<string, () => Strategy>> = {
  DDP: () => ddp(),
  'ZeRO-1': () => zero({ stage: 1 }),
  'ZeRO-2': () => zero({ stage: 2 }),
  'ZeRO-3': () => zero({ stage: 3 }),
  FSDP: () => fsdp(),
};

/** Hybrid sharding, if the mesh has a second axis for it. */
const hybrid: typeof dataParallel = { HSDP: () => fsdp({ replicas: 'replicas' }) };

const strategyNames = Object.keys({ ...dataParallel, ...hybrid });

interface MeshSizes {
  readonly replicas: number;
  readonly dp: number;
  readonly tp: number;
}

/** Returns the strategies that shard the batch on a mesh, by name. Returns none if no axis shards it. */
function batchStrategies({ replicas, dp }: MeshSizes): typeof dataParallel {
  if (replicas > 1) return hybrid;
  return dp > 1 ? dataParallel : {};
}

/** Trains the part of a rank of a mesh. */
async function trainPart(
  { styles, build, loss }: Training,
  over: (() => Strategy) | null,
  { rank, mesh }: RankInThread,
  steps: number,
): Promise<Trained> {
  const { rank: replica, size: replicas } = mesh.group('replicas');
  const { rank: place, size: dp } = mesh.group('dp');
  const share = sequences / (replicas * dp);
  const first = (replica * dp + place) * share;
  // All ranks must end up with rank 0's values.
  manualSeed(rank);
  const model = build();
  const only = tensorParallel(styles);
  const parallel = await parallelize(model, over === null ? only : compose(only, over()));
  return run(model, steps, (step) => {
    const { ids, targets } = batchOf(step, first, first + share);
    return loss(parallel.forward(ids), targets);
  });
}

/** Does the same training on one rank without a strategy. */
async function trainAlone({ build, reference }: Training, steps: number): Promise<Trained> {
  manualSeed(0);
  const model = build();
  return run(model, steps, (step) => {
    const { ids, targets } = batchOf(step);
    return reference(model.forward(ids), targets);
  });
}

async function run(
  model: nn.Module,
  steps: number,
  pass: (step: number) => Tensor,
): Promise<Trained> {
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const losses: number[] = [];
  const norms: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const loss = pass(step);
    loss.backward();
    const norm = optim.clipGradNorm(model.parameters(), maxNorm);
    await optimizer.step();
    losses.push(await loss.item());
    norms.push(await norm.item());
  }
  return { losses, norms, hash: await hashOf(model) };
}

/** The tolerance for sums that were added in another order. */
const TOLERANCE = 1e-5;

/** A training, and the strategy that divides its batch, if there is one. */
type Case = readonly [title: string, training: string, over: (() => Strategy) | null];

/**
 * Tests trainings of this many steps on every mesh. Each strategy that shards the batch has all of them, or one of its
 * own.
 */
export function tensorParallelTable(
  meshes: readonly MeshSizes[],
  steps: number,
  { hasAll }: { readonly hasAll: boolean } = { hasAll: true },
): void {
  const alone = oncePerKey((training: Training) => trainAlone(training, steps), onCpu);

  describe.each(meshes)(
    'tensor parallelism on a mesh of replicas $replicas, dp $dp, tp $tp',
    (mesh) => {
      const { replicas, dp, tp } = mesh;
      const size = replicas * dp * tp;
      const axes = (['replicas', 'dp', 'tp'] as const).map((name) => ({ name, size: mesh[name] }));
      const batch = Object.entries(batchStrategies(mesh));
      const names = Object.keys(trainings);
      const cases: readonly Case[] =
        batch.length === 0
          ? names.map((name) => [name, name, null])
          : batch.flatMap(([each, over]) => {
              const row = strategyNames.indexOf(each);
              const chosen = someForRow({ row, rows: strategyNames.length }, names, 1);
              return (hasAll ? names : chosen).map((name): Case => [
                `${each}: ${name}`,
                name,
                over,
              ]);
            });

      it.each(cases)('trains %s as one rank does', async (_, name, over) => {
        const training = trainings[name] ?? expect.fail(name);
        const each = await onRanks(size, (place) => trainPart(training, over, place, steps), {
          axes,
          ...onCpu,
        });
        const { losses, norms } = await alone(training);
        expect(losses).toHaveLength(steps);
        // All ranks along tp report the same loss.
        const means = meanOverRanks(each.map((own) => own.losses));
        assertAllclose(means, losses, { rtol: TOLERANCE, atol: 0 });
        for (const [rank, own] of each.entries()) {
          expect(own.losses).toEqual(each[rank - (rank % tp)]?.losses);
          assertAllclose(own.norms, norms, { rtol: 1e-4, atol: 0 });
        }
        expect(new Set(each.map(({ hash }) => hash)).size).toBe(1);
      });
    },
  );
}
