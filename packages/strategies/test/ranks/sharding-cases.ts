import { fromData, nn, noGrad, optim, setRank, type Strategy, type Tensor } from '@shardwise/core';
import { currentSession } from '@shardwise/core/extend';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import type { RankContext } from '@shardwise/testing/ranks';
import { z } from 'zod';
import { join } from '../../../../test/ranks/join.ts';
import { gridOf } from './grid.ts';

interface Variant {
  readonly strategy: () => Strategy;
  /** The number of ranks that the world must have. */
  readonly ranks?: number;
  /** The size of a second mesh axis. */
  readonly replicas?: number;
}

export const variants: Readonly<Record<string, Variant>> = {
  'ZeRO-1': { strategy: () => zero({ stage: 1 }) },
  'ZeRO-2': { strategy: () => zero({ stage: 2, bucketBytes: 64 }) },
  'ZeRO-3': { strategy: () => zero({ stage: 3 }) },
  FSDP: { strategy: () => fsdp() },
  'FSDP that keeps parameters': { strategy: () => fsdp({ reshardAfterForward: false }) },
  'FSDP that reshards everything': {
    strategy: () => fsdp({ reshardAfterForward: true, prefetch: 2 }),
  },
  'FSDP that collects from two neighbours in backward': {
    strategy: () => fsdp({ reshardAfterForward: 2 }),
    ranks: 4,
  },
  'FSDP in two replicas': {
    strategy: () => fsdp({ replicas: 'replicas' }),
    ranks: 4,
    replicas: 2,
  },
};

/** The number of items in the batch of all ranks. 1 to 4 ranks share it evenly. */
const globalBatch = 12;

/**
 * Four layers of sizes 3 and 5. The first and the last share a weight, the second is used twice, the third is never
 * used, and a bias has fewer elements than some worlds have ranks.
 */
export class TangledModel extends nn.Module {
  readonly layers = new nn.ModuleList([
    new nn.Linear(3, 5),
    new nn.Linear(5, 5),
    new nn.Linear(5, 3),
    new nn.Linear(3, 5),
  ]);
  readonly head = new nn.Linear(5, 1);

  constructor() {
    super();
    const [first, , , last] = this.layers;
    if (first !== undefined && last !== undefined) last.weight = first.weight;
    // The values are the same on every rank and are not drawn.
    let index = 0;
    noGrad(() => {
      for (const parameter of this.parameters()) {
        const values = Float32Array.from({ length: parameter.numel }, () => Math.sin(++index) / 2);
        parameter.assign(fromData(values, parameter.shape, 'f32'));
      }
    });
  }

  /** Shape: x [B, 3] -> [B, 1]. */
  forward(x: Tensor): Tensor {
    const [first, second, , last] = this.layers;
    if (first === undefined || second === undefined || last === undefined) throw new RangeError();
    const hidden = second.forward(second.forward(first.forward(x).tanh()).gelu());
    return this.head.forward(hidden.add(last.forward(x)));
  }
}

/** The model and the optimizer of a case. */
interface Training {
  readonly model: TangledModel;
  readonly optimizer: optim.AdamW;
  readonly forward: (x: Tensor) => Tensor;
  readonly noSync: <T>(body: () => T) => T;
  /** This rank's part of a step's batch. */
  readonly batch: (step: number) => { readonly x: Tensor; readonly y: Tensor };
  /** The batch of all ranks. */
  readonly wholeBatch: (step: number) => { readonly x: Tensor; readonly y: Tensor };
}

/** Numbers that are the same on every rank and for every strategy. */
type Numbers = readonly number[];

const lossOf = ({ forward }: Training, { x, y }: ReturnType<Training['batch']>): Tensor =>
  nn.functional.mseLoss(forward(x), y);

async function plainSteps(training: Training, first: number, stop: number): Promise<void> {
  for (let step = first; step < stop; step++) {
    training.optimizer.zeroGrad();
    lossOf(training, training.batch(step)).backward();
    await training.optimizer.step();
  }
}

async function clipped(training: Training, normType: number): Promise<Numbers> {
  const norms: number[] = [];
  for (let step = 0; step < 3; step++) {
    training.optimizer.zeroGrad();
    lossOf(training, training.batch(step)).backward();
    const norm = optim.clipGradNorm(training.model.parameters(), 0.05, { normType });
    await training.optimizer.step();
    norms.push(await norm.item());
  }
  return norms;
}

export const cases: Readonly<Record<string, (training: Training) => Promise<Numbers>>> = {
  'plain steps': async (training) => {
    await plainSteps(training, 0, 3);
    return [];
  },
  'gradients clipped to a norm': (training) => clipped(training, 2),
  'gradients clipped to a sum of magnitudes': (training) => clipped(training, 1),
  'gradients clipped to a norm of cubes': (training) => clipped(training, 3),
  'gradients clipped to a largest value': (training) => clipped(training, Number.POSITIVE_INFINITY),
  'evaluation under noGrad between steps': async (training) => {
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) {
      await plainSteps(training, step, step + 1);
      losses.push(await noGrad(() => lossOf(training, training.wholeBatch(step))).item());
    }
    return losses;
  },
  'evaluation between forward and backward': async (training) => {
    const losses: number[] = [];
    for (let step = 0; step < 3; step++) {
      training.optimizer.zeroGrad();
      const loss = lossOf(training, training.batch(step));
      const evaluated = noGrad(() => lossOf(training, training.wholeBatch(step + 7)));
      loss.backward();
      losses.push(await evaluated.item());
      await training.optimizer.step();
    }
    return losses;
  },
  'a forward pass without a backward pass': async (training) => {
    lossOf(training, training.batch(9));
    await plainSteps(training, 0, 2);
    return [await lossOf(training, training.wholeBatch(9)).item()];
  },
  'two forward passes before one backward pass': async (training) => {
    for (let step = 0; step < 3; step++) {
      training.optimizer.zeroGrad();
      const loss = lossOf(training, training.batch(step));
      loss.add(lossOf(training, training.batch(step + 5))).backward();
      await training.optimizer.step();
    }
    return [];
  },
  'two forward passes, then two backward passes': async (training) => {
    for (let step = 0; step < 3; step++) {
      training.optimizer.zeroGrad();
      const first = lossOf(training, training.batch(step));
      const second = lossOf(training, training.batch(step + 5));
      second.backward();
      first.backward();
      await training.optimizer.step();
    }
    return [];
  },
  'passes accumulated with and without communication': async (training) => {
    for (let step = 0; step < 3; step++) {
      training.optimizer.zeroGrad();
      training.noSync(() => lossOf(training, training.batch(step)).backward());
      lossOf(training, training.batch(step + 4)).backward();
      lossOf(training, training.batch(step + 8)).backward();
      await training.optimizer.step();
    }
    return [];
  },
  'gradients read after the step': async (training) => {
    const norms: number[] = [];
    for (let step = 0; step < 2; step++) {
      await plainSteps(training, step, step + 1);
      norms.push(await optim.totalGradNorm(training.model.parameters()).item());
    }
    return norms;
  },
  'gradients read before the step': async (training) => {
    const norms: number[] = [];
    for (let step = 0; step < 2; step++) {
      training.optimizer.zeroGrad();
      lossOf(training, training.batch(step)).backward();
      norms.push(await optim.totalGradNorm(training.model.parameters()).item());
      await training.optimizer.step();
    }
    return norms;
  },
  'layers frozen and released between steps': async (training) => {
    const [first, second] = training.model.layers;
    await plainSteps(training, 0, 1);
    first?.requiresGrad_(false);
    second?.weight.requiresGrad_(false);
    await plainSteps(training, 1, 3);
    first?.requiresGrad_(true);
    await plainSteps(training, 3, 5);
    const trained = training.model.parameters().filter(({ requiresGrad }) => requiresGrad);
    return [trained.length];
  },
  'a layer that is frozen with its gradient': async (training) => {
    const [, second] = training.model.layers;
    training.optimizer.zeroGrad();
    lossOf(training, training.batch(0)).backward();
    second?.requiresGrad_(false);
    await training.optimizer.step();
    return [];
  },
};

/** The outcome of a case on one rank. */
export const outcome = z.object({
  numbers: z.array(z.number()),
  parameters: z.record(z.string(), z.array(z.number())),
});
export type Outcome = z.infer<typeof outcome>;
export const outcomes = z.record(z.string(), outcome);

export async function main(context: RankContext): Promise<Record<string, Outcome>> {
  const { group, mesh: line } = await join(context);
  const { backend: device } = currentSession();
  const found: Record<string, Outcome> = {};
  for (const [name, { strategy, ranks = context.size, replicas }] of Object.entries(variants)) {
    if (ranks !== context.size) continue;
    setRank({ device, mesh: replicas === undefined ? line : await gridOf(group, replicas) });
    for (const each of Object.keys(cases)) {
      const model = new TangledModel();
      found[`${name}: ${each}`] = await runCase(each, {
        model,
        ...(await parallelTraining(model, strategy())),
        ...batchesOf(context.rank, context.size),
      });
    }
  }
  return found;
}

async function parallelTraining(
  model: TangledModel,
  strategy: Strategy,
): Promise<Pick<Training, 'forward' | 'noSync'>> {
  const parallel = await parallelize(model, strategy);
  return {
    forward: (x) => parallel.forward(x),
    noSync: (body) => parallel.noSync(body),
  };
}

/** Runs a case on one rank without a strategy. */
export function runAlone(name: string): Promise<Outcome> {
  const model = new TangledModel();
  return runCase(name, {
    model,
    forward: (x) => model.forward(x),
    noSync: (body) => body(),
    ...batchesOf(0, 1),
  });
}

async function runCase(name: string, parts: Omit<Training, 'optimizer'>): Promise<Outcome> {
  const { model } = parts;
  const optimizer = new optim.AdamW(model.parameters(), { lr: 0.01 });
  const numbers = await cases[name]?.({ ...parts, optimizer });
  const parameters: Record<string, number[]> = {};
  for (const [key, { bytes }] of Object.entries(await model.stateDict())) {
    parameters[key] = Array.from(new Float32Array(bytes.slice().buffer));
  }
  return { numbers: [...(numbers ?? [])], parameters };
}

function batchesOf(rank: number, size: number): Pick<Training, 'batch' | 'wholeBatch'> {
  const items = (step: number, first: number, count: number): ReturnType<Training['batch']> => {
    const values = (columns: number, seed: number): Tensor =>
      fromData(
        Float32Array.from({ length: count * columns }, (_, i) =>
          Math.sin(seed + step * 31 + (first * columns + i) * 1.7),
        ),
        [count, columns],
        'f32',
      );
    return { x: values(3, 1), y: values(1, 2) };
  };
  const share = globalBatch / size;
  return {
    batch: (step) => items(step, rank * share, share),
    wholeBatch: (step) => items(step, 0, globalBatch),
  };
}
