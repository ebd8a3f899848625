import { autocast, manualSeed, optim, tensor, type Tensor } from '@shardwise/core';
import { parallelize, pipeline, type ScheduleName } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { Language, languageBatch, languageLoss } from './pipeline-models.ts';

export const trained = z.object({
  losses: z.array(z.number()),
  /** Whether each step was taken, and the loss scale after it. */
  taken: z.array(z.boolean()),
  scales: z.array(z.number()),
  /** The bytes that a stage sends to the next one for each microbatch. */
  sentBytes: z.number(),
});

export const outcome = z.record(z.string(), z.object({ alone: trained, piped: trained }));

export interface PrecisionTask {
  readonly dtype: 'f16' | 'bf16' | null;
  readonly schedule: ScheduleName;
  readonly cut: readonly string[];
}

const microbatches = 2;
const rows = 4;
const steps = 6;

/** Trains in a dtype on one rank and in stages. With the loss scale, the first steps overflow in f16. */
export async function main(
  context: RankContext<unknown, Readonly<Record<string, PrecisionTask>>>,
): Promise<z.infer<typeof outcome>> {
  await join(context, 'cpu', 'pp');
  const found: z.infer<typeof outcome> = {};
  for (const [name, task] of Object.entries(context.data)) {
    found[name] = { alone: await alone(task), piped: await piped(task) };
  }
  return found;
}

async function alone({ dtype }: PrecisionTask): Promise<z.infer<typeof trained>> {
  manualSeed(3);
  const model = new Language();
  const part = (x: Tensor, y: Tensor): Tensor =>
    languageLoss(
      autocast({ dtype: dtype ?? 'bf16', enabled: dtype !== null }, () => model.forward(x)).to(
        'f32',
      ),
      y,
    );
  const pass = (x: Tensor, y: Tensor, scaled: (loss: Tensor) => Tensor): Tensor => {
    const parts = x.chunk(microbatches).map((own, index) => {
      const loss = part(own, y.chunk(microbatches)[index] ?? y).mul(1 / microbatches);
      scaled(loss).backward();
      return loss;
    });
    return parts.reduce((sum, each) => sum.add(each)).retain();
  };
  return { ...(await train(model, pass)), sentBytes: 0 };
}

async function piped({ dtype, schedule, cut }: PrecisionTask): Promise<z.infer<typeof trained>> {
  manualSeed(3);
  const precision = dtype === null ? {} : { mixedPrecision: { computeDtype: dtype } };
  const strategy = pipeline({ schedule, cut, microbatches, loss: languageLoss, ...precision });
  const model = await parallelize(new Language(), strategy);
  const pass = (x: Tensor, y: Tensor, scaled: (loss: Tensor) => Tensor): Tensor => {
    const loss = model.forward(x, y);
    scaled(loss).backward();
    return loss;
  };
  const found = await train(model.module, pass);
  const { steps: planned } = model.plan;
  const { edges } = z
    .object({ edges: z.array(z.object({ bytes: z.number() })) })
    .parse(planned.find(({ kind }) => kind === 'runStages')?.data);
  return { ...found, sentBytes: edges[0]?.bytes ?? 0 };
}

async function train(
  model: Language,
  pass: (x: Tensor, y: Tensor, scaled: (loss: Tensor) => Tensor) => Tensor,
): Promise<Omit<z.infer<typeof trained>, 'sentBytes'>> {
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const scaler = new optim.DynamicLossScaler({
    initialScale: 2 ** 24,
    hysteresis: 1,
    scaleFactor: 16,
  });
  const found = { losses: [0].slice(1), taken: [true].slice(1), scales: [0].slice(1) };
  for (let step = 0; step < steps; step++) {
    const { ids, targets } = languageBatch(step % 2, rows);
    optimizer.zeroGrad();
    const loss = pass(tensor(ids, 'i32'), tensor(targets, 'i32'), (each) => scaler.scale(each));
    scaler.unscale(optimizer);
    optim.clipGradNorm(model.parameters(), 0.5);
    found.taken.push(await scaler.step(optimizer));
    scaler.update();
    found.losses.push(await loss.item());
    found.scales.push(scaler.lossScale);
  }
  return found;
}
