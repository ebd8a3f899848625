import { manualSeed, optim, tensor, type Tensor } from '@shardwise/core';
import {
  OptimisticOptimizer,
  parallelize,
  pipeline,
  type ScheduleName,
} from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { Language, languageBatch, languageLoss } from './pipeline-models.ts';

const trained = z.object({
  losses: z.array(z.number()),
  norms: z.array(z.number()),
  taken: z.array(z.boolean()),
  /** The state of the loss scaler, which sets the scale of the next loss. Null if losses are not scaled. */
  scaler: z.unknown(),
  /** The parameters, the states and the step counts at the end, as text of their bytes. */
  states: z.string(),
});

export const outcome = z.record(
  z.string(),
  z.object({ waiting: trained, ahead: trained, explained: z.string() }),
);

type Trained = z.infer<typeof trained>;

/** Optimizers whose steps are all compared. */
export const optimizers = {
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

export interface OptimisticTask {
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

export async function main(
  context: RankContext<unknown, Readonly<Record<string, OptimisticTask>>>,
): Promise<z.infer<typeof outcome>> {
  await join(context, 'cpu', 'pp');
  const found: z.infer<typeof outcome> = {};
  for (const [name, task] of Object.entries(context.data)) {
    let explained = '';
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
      const options = { maxNorm: task.maxNorm, ...verdict };
      const optimizer = new OptimisticOptimizer(inner, options);
      return async () => {
        await optimizer.step();
        explained = optimizer.explain();
        return () => optimizer.verdict();
      };
    });
    found[name] = { waiting, ahead, explained };
  }
  return found;
}

type Step = () => Promise<() => Promise<{ taken: boolean; norm: number }>>;

async function train(
  task: OptimisticTask,
  stepOf: (optimizer: optim.Optimizer, scaler: optim.DynamicLossScaler | null) => Step,
): Promise<Trained> {
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
    states,
    scaler: scaler?.stateDict() ?? null,
  };
}
