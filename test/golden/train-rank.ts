import { createHash } from 'node:crypto';
import { cpu, dist, manualSeed, nn, setRank } from 'shardwise';
import { z } from 'zod';
import { partOfBatch, readGolden, withPrefix } from './golden-file.ts';
import { goldenModels, goldenNames, type GoldenModel, type GoldenName } from './models.ts';
import { goldenOptimizers, optimizerNames, type OptimizerName } from './optimizers.ts';

/** The results of one training on one rank. */
export const rankTraining = z.object({
  model: z.enum(goldenNames),
  optimizer: z.enum(optimizerNames),
  /** The losses of this rank's part of each batch. */
  losses: z.array(z.number()),
  /** The gradients of step 0, by parameter. */
  gradients: z.record(z.string(), z.instanceof(Float32Array)),
  /** The parameters after the last step. */
  parameters: z.record(z.string(), z.instanceof(Float32Array)),
  /** The SHA-256 of all parameters after each step. */
  hashes: z.array(z.string()),
});

export type RankTraining = z.infer<typeof rankTraining>;

interface RankContext {
  readonly rank: number;
  readonly size: number;
  readonly world: dist.transports.ThreadsWorld;
}

/** Trains every model with every optimizer on this rank's thread. */
export async function main({ rank, size, world }: RankContext): Promise<RankTraining[]> {
  const group = dist.transports.joinThreadsWorld(world, rank);
  const device = await cpu({ memory: world.memory, ...world.regions[rank] });
  setRank({ device, mesh: new dist.LineMesh('dp', group) });
  const trainings: RankTraining[] = [];
  for (const model of goldenNames) {
    for (const optimizer of optimizerNames)
      trainings.push(await train(model, optimizer, rank, size));
  }
  return trainings;
}

export async function train(
  modelName: GoldenName,
  optimizerName: OptimizerName,
  rank: number,
  size: number,
): Promise<RankTraining> {
  const { tensors: golden } = await readGolden(modelName);
  // Every rank begins with different weights, and only rank 0 loads those of PyTorch. DDP has to broadcast them.
  manualSeed(rank);
  const model: GoldenModel = goldenModels[modelName]();
  if (rank === 0)
    await model.loadStateDict(withPrefix(golden, 'initial'), { strict: modelName !== 'gpt-tied' });
  const parallel = size === 1 ? model : await dist.parallelize(model, dist.ddp());
  const optimizer = goldenOptimizers[optimizerName](model.parameters());
  const inputs = golden['data.inputs'];
  const targets = golden['data.targets'];
  const gradients: RankTraining['gradients'] = {};
  const [steps = 0] = inputs?.shape ?? [];
  const losses: number[] = [];
  const hashes: string[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const logits = parallel.forward(partOfBatch(inputs, step, rank, size));
    const loss = nn.functional.crossEntropy(logits, partOfBatch(targets, step, rank, size));
    loss.backward();
    if (step === 0) {
      for (const [name, { grad }] of model.namedParameters())
        gradients[name] = Float32Array.from((await grad?.data()) ?? [], Number);
    }
    await optimizer.step();
    losses.push(await loss.item());
    hashes.push(hashOf(await model.stateDict()));
  }
  const parameters: RankTraining['parameters'] = {};
  for (const [name, parameter] of model.namedParameters())
    parameters[name] = Float32Array.from(await parameter.data(), Number);
  return { model: modelName, optimizer: optimizerName, losses, gradients, parameters, hashes };
}

function hashOf(state: nn.StateDict): string {
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(state)) hash.update(bytes);
  return hash.digest('hex');
}
