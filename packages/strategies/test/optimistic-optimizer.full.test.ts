import { manualSeed, optim, type Tensor, tensor } from '@shardwise/core';
import {
  OptimisticOptimizer,
  parallelize,
  pipeline,
  type ScheduleName,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { onCpu } from '../../../test/support/on-cpu.ts';
import { Language, languageBatch, languageLoss } from './ranks/pipeline-models.ts';

/** Optimizers whose steps are all compared. */
const optimizers = {
  SGD: (params) => new optim.SGD(params, { lr: 0.1, momentum: 0.9 }),
  Adam: (params) => new optim.Adam(params, { lr: 0.01 }),
  AdamW: (params) => new optim.AdamW(params, { lr: 0.01 }),
  AdamW8bit: (params) => new optim.AdamW8bit(params, { lr: 0.01 }),
  Adagrad: (params) => new optim.Adagrad(params, { lr: 0.01 }),
  Adafactor: (params) => new optim.Adafactor(params, { lr: 0.01 }),
  Lamb: (params) => new optim.Lamb(params, { lr: 0.01 }),
  Lion: (params) => new optim.Lion(params, { lr: 0.01 }),
  Muon: (params) =>
    new optim.Muon(
      params.filter(({ ndim }) => ndim === 2),
      { lr: 0.01 },
    ),
  RMSprop: (params) => new optim.RMSprop(params, { lr: 0.01 }),
} satisfies Readonly<Record<string, (params: Tensor[]) => optim.Optimizer>>;

interface OptimisticTask {
  readonly optimizer: keyof typeof optimizers;
  readonly schedule: ScheduleName;
  readonly cut: readonly string[];
  readonly maxNorm: number;
  readonly tied?: boolean;
  readonly dropout?: number;
  /** Whether losses are scaled. The scale grows after two steps. Default: false. */
  readonly scaled?: boolean;
}

const steps = 6;
/** The number of the step whose gradients are NaN. */
const bad = 2;

type Step = () => Promise<() => Promise<{ taken: boolean; norm: number }>>;

async function train(
  task: OptimisticTask,
  stepOf: (optimizer: optim.Optimizer, scaler: optim.DynamicLossScaler | null) => Step,
) {
  manualSeed(1);
  const { schedule, cut } = task;
  const strategy = pipeline({ schedule, cut, microbatches: 4, loss: languageLoss });
  const model = await parallelize(new Language(task), strategy);
  manualSeed(2);
  const optimizer = optimizers[task.optimizer](model.module.parameters());
  const rule = { initialScale: 2 ** 10, scaleWindow: 2, hysteresis: 1 };
  const scaler = task.scaled === true ? new optim.DynamicLossScaler(rule) : null;
  const step = stepOf(optimizer, scaler);
  const losses: Tensor[] = [];
  const verdicts: Promise<{ taken: boolean; norm: number }>[] = [];
  for (let index = 0; index < steps; index++) {
    const { ids, targets } = languageBatch(index, 5);
    optimizer.zeroGrad();
    const loss = model.forward(tensor(ids, 'i32'), tensor(targets, 'i32'));
    const own = loss.mul(index === bad ? Number.NaN : 1);
    (scaler?.scale(own) ?? own).backward();
    losses.push(loss);
    const verdict = await step();
    // The verdicts of earlier steps are not read before the next pass.
    if (index >= steps - 2) verdicts.push(verdict());
    for (const group of optimizer.paramGroups) group.lr *= 0.9;
  }
  const read = await Promise.all(losses.map((loss) => loss.item()));
  const all = await Promise.all(verdicts);
  const weights = await model.module.stateDict();
  const { state } = await optimizer.stateDict();
  const states = JSON.stringify([weights, state], (_, value: unknown) =>
    value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value,
  );
  return {
    losses: read,
    norms: all.map(({ norm }) => norm),
    taken: all.map(({ taken }) => taken),
    /** The parameters, the states and the step counts at the end, as text of their bytes. */
    states,
    /** Its state sets the scale of the next loss. */
    scaler: scaler?.stateDict() ?? null,
  };
}

const two = { schedule: 'zb1p', cut: ['blocks.2'] } as const;
const four = ['blocks.1', 'blocks.2', 'blocks.3'];
const [always, never] = [0.05, 1e6];
const names = Object.keys(optimizers).filter(
  (name) => name in optimizers,
) as (keyof typeof optimizers)[];

const tasks: Readonly<Record<string, OptimisticTask>> = {
  ...Object.fromEntries(
    names.flatMap((optimizer): [string, OptimisticTask][] => [
      [`${optimizer} that is clipped`, { optimizer, ...two, maxNorm: always }],
      [`${optimizer} that is not clipped`, { optimizer, ...two, maxNorm: never }],
    ]),
  ),
  GPipe: { optimizer: 'AdamW', schedule: 'gpipe', cut: ['blocks.2'], maxNorm: always },
  '1F1B with a weight on two stages, and dropout': {
    optimizer: 'AdamW',
    schedule: '1f1b',
    cut: ['blocks.2'],
    maxNorm: always,
    tied: true,
    dropout: 0.2,
  },
  'scaled losses, clipped': {
    optimizer: 'AdamW',
    schedule: '1f1b',
    cut: ['blocks.2'],
    maxNorm: always,
    scaled: true,
  },
  'scaled losses': {
    optimizer: 'Adam',
    schedule: 'zb1p',
    cut: ['blocks.2'],
    maxNorm: never,
    scaled: true,
  },
  ZBV: { optimizer: 'AdamW', schedule: 'zbv', cut: four, maxNorm: always },
  'interleaved 1F1B': {
    optimizer: 'AdamW',
    schedule: 'interleaved1f1b',
    cut: four,
    maxNorm: always,
  },
};

describe('steps ahead of their verdict', () => {
  it.each(Object.entries(tasks))(
    'have the bits of those that wait for it, and say what they keep until then: %s',
    async (name, task) => {
      await onRanks(
        2,
        async () => {
          const waiting = await train(task, (optimizer, scaler) => async () => {
            const params = optimizer.paramGroups.flatMap((group) => [...group.params]);
            scaler?.unscale(optimizer);
            const norm = optim.clipGradNorm(params, task.maxNorm);
            const skipIf = norm.sub(norm).eq(0).logicalNot();
            const taken = await (scaler?.step(optimizer) ?? optimizer.step({ skipIf }));
            scaler?.update();
            return async () => ({ taken, norm: await norm.item() });
          });
          const ahead = await train(task, (inner, scaler) => {
            const verdict = scaler === null ? { skipNonFinite: true } : { scaler };
            const optimizer = new OptimisticOptimizer(inner, { maxNorm: task.maxNorm, ...verdict });
            return async () => {
              await optimizer.step();
              expect(optimizer.explain()).toMatch(
                /^steps ahead of the verdict: .*: [1-9]\d+ bytes$/,
              );
              return () => optimizer.verdict();
            };
          });
          expect(ahead.states === waiting.states, 'parameters and states').toBe(true);
          expect({ ...ahead, states: '' }).toEqual({ ...waiting, states: '' });
          expect(ahead.losses.every(Number.isFinite)).toBe(true);
          if (name !== 'scaled losses') return;
          // The overflow in the third step halves the scale. Two steps without overflow double it again.
          const state = {
            scale: 2 ** 10,
            iteration: 6,
            lastOverflowIteration: 2,
            hysteresisLeft: 1,
          };
          expect(ahead.scaler).toEqual(state);
        },
        { axes: [{ name: 'pp', size: 2 }], ...onCpu },
      );
    },
  );
});
