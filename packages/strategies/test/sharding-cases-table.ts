import { fromData, nn, noGrad, optim, type Strategy, type Tensor } from '@shardwise/core';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import { onRanks, type RankInThread } from '@shardwise/testing/node';
import { beforeAll, describe, expect, it } from 'vitest';
import { someForRow } from '../../../test/support/some-for-row.ts';

interface Variant {
  readonly strategy: () => Strategy;
  /** The number of ranks that the world must have. */
  readonly ranks?: number;
  /** The size of a second mesh axis. */
  readonly replicas?: number;
}

const variants: Readonly<Record<string, Variant>> = {
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
class TangledModel extends nn.Module {
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

const cases: Readonly<Record<string, (training: Training) => Promise<Numbers>>> = {
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
interface Outcome {
  numbers: number[];
  parameters: Record<string, number[]>;
}

/** Runs a case on this rank. */
async function runPart(name: string, strategy: Strategy, place: RankInThread): Promise<Outcome> {
  const model = new TangledModel();
  const training = await parallelTraining(model, strategy);
  return runCase(name, { model, ...training, ...batchesOf(place.rank, place.size) });
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
function runAlone(name: string): Promise<Outcome> {
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

/**
 * Tests in worlds of these sizes that every strategy that shards states trains like one rank, for models that are hard
 * to cut. Each strategy runs so many of the cases.
 */
export function testShardingCases(
  sizes: readonly number[],
  casesOfVariant: number = Object.keys(cases).length,
): void {
  const alone = new Map<string, Outcome>();

  beforeAll(async () => {
    for (const name of Object.keys(cases)) {
      const [outcome] = await onRanks(1, () => runAlone(name));
      if (outcome !== undefined) alone.set(name, outcome);
    }
  });

  describe.each(sizes)('on %i ranks', (size) => {
    const possible = Object.entries(variants).filter(([, { ranks: only = size }]) => only === size);

    const rows = possible.map((each, row) => [...each, row] as const);
    describe.each(rows)('%s', (_, { strategy, replicas = 1 }, row) => {
      const axes = [
        { name: 'replicas', size: replicas },
        { name: 'dp', size: size / replicas },
      ].slice(replicas === 1 ? 1 : 0);

      it.each(someForRow({ row, rows: rows.length }, Object.keys(cases), casesOfVariant))(
        'ends as one rank does: %s',
        async (name) => {
          const expected = alone.get(name);
          const names = Object.keys(expected?.parameters ?? {});
          expect(names).toHaveLength(10);
          const ranks = await onRanks(size, (place) => runPart(name, strategy(), place), { axes });
          for (const found of ranks) {
            expect(Object.keys(found.parameters)).toEqual(names);
            expectClose(found.numbers, expected?.numbers);
            for (const each of names) {
              expectClose(found.parameters[each], expected?.parameters[each]);
            }
          }
        },
      );
    });
  });
}

/** Compares results whose sums were added in another order. Adam's division can enlarge the rounding differences. */
function expectClose(found: readonly number[] = [], expected: readonly number[] = []): void {
  expect(found).toHaveLength(expected.length);
  expected.forEach((value, index) => {
    expect(Math.abs((found[index] ?? NaN) - value)).toBeLessThan(
      2e-5 * Math.max(1, Math.abs(value)),
    );
  });
}
