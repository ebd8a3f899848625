import { readFile } from 'node:fs/promises';
import { autocast, dist, nn, optim } from 'shardwise';
import { z } from 'zod';
import { partOfBatch, readGolden, withPrefix } from './golden-file.ts';
import { goldenModels, type GoldenModel, type GoldenName } from './models.ts';
import { goldenOptimizers, type OptimizerName } from './optimizers.ts';

const curve = z.array(z.number()).length(20);
const curves = z.object({ f32: curve, bf16: curve, f16: curve });
const noise = z.object({ bf16: z.number(), f16: z.number() });
const contents = z.object({
  curves: z.record(z.string(), z.record(z.string(), curves)),
  noise: z.record(z.string(), z.record(z.string(), noise)),
});

/** The results of one training that PyTorch's autocast recorded (tools/golden-autocast.py). */
export interface AutocastGolden {
  /** The mean loss of each step. The f32 curve is without autocast. */
  readonly curves: z.infer<typeof curves>;
  /**
   * The largest difference of the losses from those in f32, over these initial weights and six similar ones. A training
   * with other roundings may differ somewhat more.
   */
  readonly noise: z.infer<typeof noise>;
}

export async function autocastGolden(
  model: GoldenName,
  optimizer: OptimizerName,
): Promise<AutocastGolden> {
  const file = await readFile(new URL('autocast.json', import.meta.url), 'utf8');
  const all = contents.parse(JSON.parse(file));
  return {
    curves: curves.parse(all.curves[model]?.[optimizer]),
    noise: noise.parse(all.noise[model]?.[optimizer]),
  };
}

/** The largest difference of two curves in any step. */
export function largestDifference(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Number.NaN;
  return Math.max(...a.map((value, i) => Math.abs(value - (b[i] ?? Number.NaN))));
}

/** How the ranks of a mesh train together, and which part of each batch this rank has. */
export interface SharedTraining {
  readonly strategy: dist.Strategy;
  readonly rank: number;
  readonly size: number;
}

/** Returns this rank's losses in each step of the same training. f16 uses a loss scale, as PyTorch's training does. */
export async function lossCurve(
  modelName: GoldenName,
  optimizerName: OptimizerName,
  dtype: 'bf16' | 'f16',
  shared?: SharedTraining,
): Promise<number[]> {
  const { tensors: golden } = await readGolden(modelName);
  const model: GoldenModel = goldenModels[modelName]();
  await model.loadStateDict(withPrefix(golden, 'initial'), { strict: modelName !== 'gpt-tied' });
  const parallel = shared === undefined ? null : await dist.parallelize(model, shared.strategy);
  const { rank, size } = shared ?? { rank: 0, size: 1 };
  const optimizer = goldenOptimizers[optimizerName](model.parameters());
  const scaler = new optim.LossScaler(dtype === 'f16' ? 1024 : 1);
  const losses: number[] = [];
  const [steps = 0] = golden['data.inputs']?.shape ?? [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const inputs = partOfBatch(golden['data.inputs'], step, rank, size);
    const targets = partOfBatch(golden['data.targets'], step, rank, size);
    const { crossEntropy } = nn.functional;
    const loss =
      parallel === null
        ? autocast({ dtype }, () => crossEntropy(model.forward(inputs), targets))
        : crossEntropy(parallel.forward(inputs), targets);
    scaler.scale(loss).backward();
    await scaler.step(optimizer);
    scaler.update();
    losses.push(await loss.item());
  }
  return losses;
}
