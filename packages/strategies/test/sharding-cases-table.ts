import { fromData, nn, noGrad, optim, type Strategy, type Tensor } from '@shardwise/core';
import { fsdp, parallelize, zero } from '@shardwise/strategies';
import { assertAllclose } from '@shardwise/testing';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { stateOf } from '../../../test/support/model-values.ts';
import { someForRow } from '../../../test/support/some-for-row.ts';
import { oncePerKey } from './as-one-rank.ts';
import { filled } from './filled.ts';

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
    filled(this);
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

/** Runs a case on a rank, or without a strategy. */
async function runCase(
  run: (training: Training) => Promise<Numbers>,
  strategy: (() => Strategy) | null,
  { rank, size }: { readonly rank: number; readonly size: number },
) {
  const model = new TangledModel();
  const trained =
    strategy === null
      ? { forward: (x: Tensor) => model.forward(x), noSync: <T>(body: () => T) => body() }
      : await parallelize(model, strategy());
  const numbers = await run({
    model,
    optimizer: new optim.AdamW(model.parameters(), { lr: 0.01 }),
    forward: (x) => trained.forward(x),
    noSync: (body) => trained.noSync(body),
    ...batchesOf(rank, size),
  });
  const state = await stateOf(model);
  expect(Object.keys(state)).toHaveLength(10);
  return { numbers, state };
}

const alone = oncePerKey((run: (typeof cases)[string]) => runCase(run, null, { rank: 0, size: 1 }));

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
  describe.each(sizes)('on %i ranks', (size) => {
    const possible = Object.entries(variants).filter(([, { ranks: only = size }]) => only === size);

    const rows = possible.map((each, row) => [...each, row] as const);
    describe.each(rows)('%s', (_, { strategy, replicas = 1 }, row) => {
      const axes = [
        { name: 'replicas', size: replicas },
        { name: 'dp', size: size / replicas },
      ].slice(replicas === 1 ? 1 : 0);

      it.each(someForRow({ row, rows: rows.length }, Object.entries(cases), casesOfVariant))(
        'ends as one rank does: %s',
        async (__, run) => {
          const expected = await alone(run);
          const ranks = await onRanks(size, (place) => runCase(run, strategy, place), { axes });
          for (const { numbers, state } of ranks) {
            expectClose(numbers, expected.numbers);
            expect(Object.keys(state)).toEqual(Object.keys(expected.state));
            for (const [name, values] of Object.entries(expected.state)) {
              expectClose(state[name] ?? [], values);
            }
          }
        },
      );
    });
  });
}

/** Compares results whose sums were added in another order. Adam's division can enlarge the rounding differences. */
function expectClose(found: readonly number[], expected: readonly number[]): void {
  assertAllclose(found, expected, { rtol: 1e-5, atol: 1e-5 });
}
