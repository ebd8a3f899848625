import { createHash } from 'node:crypto';
import { dist, manualSeed, nn } from 'shardwise';
import { partOfBatch, readGolden, withPrefix } from './golden-file.ts';
import { goldenModels, goldenNames, type GoldenModel, type GoldenName } from './models.ts';
import { goldenOptimizers, optimizerNames, type OptimizerName } from './optimizers.ts';

/** The results of one training on one rank. */
export interface RankTraining {
  readonly model: GoldenName;
  readonly optimizer: OptimizerName;
  /** The losses of this rank's part of each batch. */
  readonly losses: readonly number[];
  /** The gradients of step 0, by parameter. */
  readonly gradients: Readonly<Record<string, Float32Array>>;
  /** The parameters after the last step. */
  readonly parameters: Readonly<Record<string, Float32Array>>;
  /** The SHA-256 of all parameters after each step. */
  readonly hashes: readonly string[];
}

/** Trains every model with every optimizer on this rank. */
export async function trainAll(rank: number, size: number): Promise<readonly RankTraining[]> {
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
  const gradients: Record<string, Float32Array> = {};
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
  const parameters: Record<string, Float32Array> = {};
  for (const [name, parameter] of model.namedParameters())
    parameters[name] = Float32Array.from(await parameter.data(), Number);
  return { model: modelName, optimizer: optimizerName, losses, gradients, parameters, hashes };
}

function hashOf(state: nn.StateDict): string {
  const hash = createHash('sha256');
  for (const { bytes } of Object.values(state)) hash.update(bytes);
  return hash.digest('hex');
}
