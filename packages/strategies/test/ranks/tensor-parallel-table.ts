import { createHash } from 'node:crypto';
import { createMesh } from '@shardwise/collectives';
import { manualSeed, type nn, optim, setRank, type Strategy, type Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { compose, ddp, fsdp, parallelize, tensorParallel, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { batchOf, sequences, type Training, trainings } from './tensor-parallel-models.ts';

const maxNorm = 0.5;

/** The results of a training on one rank. */
export const trained = z.object({
  losses: z.array(z.number()),
  /** The norms of all gradients together before clipping. */
  norms: z.array(z.number()),
  /** The SHA-256 of all whole parameters at the end. */
  hash: z.string(),
});
export type Trained = z.infer<typeof trained>;
export const results = z.record(z.string(), trained);

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

const meshes = z.object({ replicas: z.number(), dp: z.number(), tp: z.number() });
export type MeshSizes = z.infer<typeof meshes>;
const tableTask = z.object({ mesh: meshes, steps: z.number() });
export type TableTask = z.infer<typeof tableTask>;

/** Returns the strategies that shard the batch on a mesh, by name. Returns none if no axis shards it. */
export function batchStrategies({ replicas, dp }: MeshSizes): typeof dataParallel {
  if (replicas > 1) return hybrid;
  return dp > 1 ? dataParallel : {};
}

/** Runs every training on this rank, on the mesh of the task. */
export async function main(context: RankContext): Promise<z.infer<typeof results>> {
  const { mesh: sizes, steps } = tableTask.parse(context.data);
  const { replicas, dp, tp } = sizes;
  const { group } = await join(context);
  const mesh = await createMesh(group, [
    { name: 'replicas', size: replicas },
    { name: 'dp', size: dp },
    { name: 'tp', size: tp },
  ]);
  setRank({ device: currentSession().backend, mesh });
  const found: Record<string, Trained> = {};
  const share = sequences / (replicas * dp);
  const first = (mesh.coordinate('replicas') * dp + mesh.coordinate('dp')) * share;
  for (const [name, training] of Object.entries(trainings)) {
    const only = tensorParallel(training.styles);
    const over = Object.entries(batchStrategies(sizes)).map(
      ([each, build]) => [`${each}: ${name}`, compose(only, build())] as const,
    );
    const strategies = over.length === 0 ? [[name, only] as const] : over;
    for (const [key, strategy] of strategies) {
      // All ranks must end up with rank 0's values.
      manualSeed(context.rank);
      const model = training.build();
      const parallel = await parallelize(model, strategy);
      found[key] = await run(model, steps, (step) => {
        const { ids, targets } = batchOf(step, first, first + share);
        return training.loss(parallel.forward(ids), targets);
      });
    }
  }
  return found;
}

/** Does the same training on one rank without a strategy. */
export async function trainAlone({ build, reference }: Training, steps: number): Promise<Trained> {
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
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(await model.stateDict())) hash.update(bytes);
  return { losses, norms, hash: hash.digest('hex') };
}
