import { autocast, manualSeed, optim, type Tensor, tensor } from '@shardwise/core';
import {
  parallelize,
  pipeline,
  type ScheduleName,
  stepKinds,
  stepsOf,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';

interface Trained {
  losses: number[];
  /** Whether each step was taken, and the loss scale after it. */
  taken: boolean[];
  scales: number[];
  /** The bytes that a stage sends to the next one for each microbatch. */
  sentBytes: number;
}

type Outcome = Record<
  string,
  {
    alone: Trained;
    piped: Trained;
  }
>;

interface PrecisionTask {
  readonly dtype: 'f16' | 'bf16' | null;
  readonly schedule: ScheduleName;
  readonly cut: readonly string[];
}

const microbatches = 2;
const rows = 4;
const steps = 6;

/** Trains in a dtype on one rank and in stages. With the loss scale, the first steps overflow in f16. */
async function trainEach(): Promise<Outcome> {
  const found: Outcome = {};
  for (const [name, task] of Object.entries<PrecisionTask>(tasks)) {
    found[name] = { alone: await alone(task), piped: await piped(task) };
  }
  return found;
}

async function alone({ dtype }: PrecisionTask): Promise<Trained> {
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

async function piped({ dtype, schedule, cut }: PrecisionTask): Promise<Trained> {
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

async function train(
  model: Language,
  pass: (x: Tensor, y: Tensor, scaled: (loss: Tensor) => Tensor) => Tensor,
): Promise<Omit<Trained, 'sentBytes'>> {
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

const two = { schedule: '1f1b', cut: ['blocks.2'] } as const;
const tasks = {
  f32: { dtype: null, ...two },
  bf16: { dtype: 'bf16', ...two },
  f16: { dtype: 'f16', ...two },
  'bf16 in a V': { dtype: 'bf16', schedule: 'zbv', cut: ['blocks.1', 'blocks.2', 'blocks.3'] },
} as const satisfies Readonly<Record<string, PrecisionTask>>;

describe('a pipeline that computes in 16 bits', () => {
  let ranks: readonly Outcome[] = [];

  beforeAll(async () => {
    ranks = await onRanks(2, trainEach, { axes: [{ name: 'pp', size: 2 }], ...onCpu });
  });

  it.each(Object.keys(tasks))('has the losses of one rank, to what 16 bits tell: %s', (name) => {
    const { alone, piped } = ranks[0]?.[name] ?? expect.fail(name);
    const digits = name === 'f32' ? 4 : 2;
    for (const [step, loss] of alone.losses.entries()) {
      expect(piped.losses[step], `step ${step}`).toBeCloseTo(loss, digits);
    }
    expect(piped.losses.at(-1)).toBeLessThan(piped.losses[0] ?? 0);
  });

  it.each(Object.keys(tasks))(
    'decides of each step once for all stages, as one rank: %s',
    (name) => {
      for (const rank of ranks) {
        const { alone, piped } = rank[name] ?? expect.fail(name);
        expect(piped.taken).toEqual(alone.taken);
        expect(piped.scales).toEqual(alone.scales);
        expect(piped.losses).toEqual(ranks[0]?.[name]?.piped.losses);
      }
      const { taken } = ranks[0]?.[name]?.piped ?? expect.fail(name);
      expect(taken.includes(false)).toBe(name === 'f16');
      expect(taken.at(-1)).toBe(true);
    },
  );

  it('a pipeline that computes in 16 bits sends half the bytes', () => {
    const bytes = (name: string): number | undefined => ranks[0]?.[name]?.piped.sentBytes;
    expect(bytes('f32')).toBe(2 * 5 * 8 * 4);
    expect(bytes('bf16')).toBe(2 * 5 * 8 * 2);
    expect(bytes('f16')).toBe(2 * 5 * 8 * 2);
  });
});
