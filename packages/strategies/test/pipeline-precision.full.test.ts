import { autocast, manualSeed, optim, type Tensor, tensor } from '@shardwise/core';
import {
  parallelize,
  pipeline,
  type ScheduleName,
  stepKinds,
  stepsOf,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';

interface PrecisionTask {
  readonly dtype: 'f16' | 'bf16' | null;
  readonly schedule: ScheduleName;
  readonly cut: readonly string[];
}

const microbatches = 2;
const rows = 4;
const steps = 6;
/** The elements that a stage sends to the next one for each microbatch. */
const sentElements = 2 * 5 * 8;

/** Trains in a dtype on one rank. */
async function alone({ dtype }: PrecisionTask) {
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
  return train(model, pass);
}

/** Trains in a dtype in stages. */
async function piped({ dtype, schedule, cut }: PrecisionTask) {
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
  const [step] = stepsOf(model.plan, stepKinds.runStages);
  return { ...found, sentBytes: step?.data.edges?.[0]?.bytes ?? 0 };
}

/** With the loss scale, the first steps overflow in f16. */
async function train(
  model: Language,
  pass: (x: Tensor, y: Tensor, scaled: (loss: Tensor) => Tensor) => Tensor,
) {
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const scaler = new optim.DynamicLossScaler({
    initialScale: 2 ** 24,
    hysteresis: 1,
    scaleFactor: 16,
  });
  const losses: number[] = [];
  /** Whether each step was taken, and the loss scale after it. */
  const taken: boolean[] = [];
  const scales: number[] = [];
  for (let step = 0; step < steps; step++) {
    const { ids, targets } = languageBatch(step % 2, rows);
    optimizer.zeroGrad();
    const loss = pass(tensor(ids, 'i32'), tensor(targets, 'i32'), (each) => scaler.scale(each));
    scaler.unscale(optimizer);
    optim.clipGradNorm(model.parameters(), 0.5);
    taken.push(await scaler.step(optimizer));
    scaler.update();
    losses.push(await loss.item());
    scales.push(scaler.lossScale);
  }
  return { losses, taken, scales };
}

const two = { schedule: '1f1b', cut: ['blocks.2'] } as const;
const tasks = {
  f32: { dtype: null, ...two },
  bf16: { dtype: 'bf16', ...two },
  f16: { dtype: 'f16', ...two },
  'bf16 in a V': { dtype: 'bf16', schedule: 'zbv', cut: ['blocks.1', 'blocks.2', 'blocks.3'] },
} as const satisfies Readonly<Record<string, PrecisionTask>>;

it.each(Object.entries<PrecisionTask>(tasks))(
  'a pipeline that computes in 16 bits has the losses of one rank, to what these tell, decides of each step once for all stages, and sends half the bytes: %s',
  async (name, task) => {
    const ranks = await onRanks(
      2,
      async () => {
        const expected = await alone(task);
        const { sentBytes, ...found } = await piped(task);
        for (const [step, loss] of expected.losses.entries()) {
          expect(found.losses[step], `step ${step}`).toBeCloseTo(loss, name === 'f32' ? 4 : 2);
        }
        expect(found.losses.at(-1)).toBeLessThan(found.losses[0] ?? 0);
        expect(found.taken).toEqual(expected.taken);
        expect(found.scales).toEqual(expected.scales);
        expect(found.taken.includes(false)).toBe(name === 'f16');
        expect(found.taken.at(-1)).toBe(true);
        expect(sentBytes).toBe(sentElements * (task.dtype === null ? 4 : 2));
        return found.losses;
      },
      { axes: [{ name: 'pp', size: 2 }], ...onCpu },
    );
    expect(ranks[1]).toEqual(ranks[0]);
  },
);
