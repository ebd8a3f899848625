import type { ThreadsWorld } from '@shardwise/collectives';
import { fromData, manualSeed, optim } from '@shardwise/core';
import { fromPretrained, savePretrained } from '@shardwise/models/node';
import { fsdp } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { checkpoints } from 'shardwise';
import { z } from 'zod';
import { join } from './join.ts';

/** The rows of a batch of all ranks, and their tokens. */
const [ROWS, LENGTH] = [4, 6];

export const taskSchema = z.object({
  /** The place of the model to begin with. */
  model: z.string(),
  /** The place of the checkpoints. */
  checkpoints: z.string().optional(),
  /** Whether training goes on from the latest of them. */
  resumes: z.boolean().optional(),
  steps: z.number(),
  /** Where the model is saved at the end. */
  saveTo: z.string().optional(),
});
export type Task = z.infer<typeof taskSchema>;
export const lossesSchema = z.array(z.number());

/** Trains a model by FSDP, and returns the loss of each step over the batch of all ranks. */
export async function main(context: RankContext<ThreadsWorld, Task>): Promise<readonly number[]> {
  const task = taskSchema.parse(context.data);
  const { group } = await join(context);
  manualSeed(0);
  const model = await fromPretrained(task.model, { strategy: fsdp() });
  const optimizer = new optim.AdamW(model.module.parameters(), { lr: 1e-3 });
  let step = 0;
  if (task.checkpoints !== undefined && task.resumes === true) {
    const checkpoint = await checkpoints.load(task.checkpoints);
    await checkpoints.loadModel(checkpoint, model.module);
    await checkpoints.loadOptimizer(checkpoint, model.module, optimizer);
    step = checkpoint.step;
  }
  const rows = ROWS / context.size;
  const losses: number[] = [];
  for (const end = step + task.steps; step < end; step += 1) {
    const ids = Int32Array.from({ length: ROWS * LENGTH }, (_, i) => (i * 7 + step * 3) % 50);
    const own = ids.slice(context.rank * rows * LENGTH, (context.rank + 1) * rows * LENGTH);
    const inputs = fromData(own, [rows, LENGTH], 'i32');
    const loss = model.forward(inputs, { labels: inputs });
    loss.backward();
    await optimizer.step();
    optimizer.zeroGrad();
    const mean = Float64Array.of((await loss.item()) / context.size);
    await group.allReduce({ bytes: new Uint8Array(mean.buffer), dtype: 'f64' }, 'sum');
    losses.push(mean[0] ?? NaN);
  }
  if (task.checkpoints !== undefined) {
    await checkpoints.save(task.checkpoints, { step, model: model.module, optimizer }, { group });
  }
  if (task.saveTo !== undefined) await savePretrained(model, task.saveTo);
  return losses;
}
