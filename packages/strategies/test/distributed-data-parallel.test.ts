import { createHash } from 'node:crypto';
import { fromData, manualSeed, nn, optim, type Tensor } from '@shardwise/core';
import {
  ddp,
  type DistributedDataParallelOptions,
  parallelize,
  type PlannedModel,
} from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { stateOf, valuesOf } from '../../../test/support/model-values.ts';
import { expectAsOneRank, oncePerKey, type Trained } from './as-one-rank.ts';
import { values } from './ranks/distributed-tensor-values.ts';

/** The number of items in the batch of all ranks. 1 to 4 ranks share it evenly, and each share divides into thirds. */
const globalBatch = 36;
const inputs = 7;
const classes = 5;
const steps = 3;

type Net = nn.Module & { forward(x: Tensor): Tensor };
type Parallel = PlannedModel<Net, [Tensor], Tensor>;

/** A way to train. It gets this rank's part of the batch, and leaves gradients behind. */
interface Training {
  readonly build: () => Net;
  readonly options?: DistributedDataParallelOptions;
  /** Runs the backward pass and returns the loss. Default: a forward pass, the loss and a backward pass. */
  readonly pass?: (parallel: Parallel, x: Tensor, y: Tensor) => Tensor;
  /** The same computation, written for one rank. */
  readonly reference?: (model: Net, x: Tensor, y: Tensor) => Tensor;
}

class Mlp extends nn.Module {
  readonly up = new nn.Linear(inputs, 13);
  readonly norm = new nn.LayerNorm(13);
  readonly down = new nn.Linear(13, classes);

  /** Shape: x [B, 7] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    return this.down.forward(this.norm.forward(this.up.forward(x).gelu()));
  }
}

/** A model with one weight in two modules. Only the name in the first one counts. */
class Tied extends nn.Module {
  readonly up = new nn.Linear(inputs, 11);
  readonly down = new nn.Linear(11, inputs, { bias: false });
  readonly head = new nn.Linear(inputs, classes);
  readonly back = new nn.Linear(11, inputs, { bias: false });

  constructor() {
    super();
    this.back.weight = this.down.weight;
  }

  /** Shape: x [B, 7] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    const hidden = this.up.forward(x).relu();
    return this.head.forward(this.down.forward(hidden).add(this.back.forward(hidden.tanh())));
  }
}

/** A model with two parameters that have the same expression as gradient. */
class TwoBiases extends nn.Module {
  readonly linear = new nn.Linear(inputs, classes, { bias: false });
  readonly first = new nn.Parameter(new Float32Array(classes), [classes]);
  readonly second = new nn.Parameter(new Float32Array(classes), [classes]);

  /** Shape: x [B, 7] -> [B, 5]. */
  forward(x: Tensor): Tensor {
    return this.linear.forward(x).add(this.first).add(this.second);
  }
}

function frozen(): Net {
  const model = new Mlp();
  model.up.requiresGrad_(false);
  return model;
}

function backward(loss: Tensor): Tensor {
  loss.backward();
  return loss;
}

const plain = (model: { forward(x: Tensor): Tensor }, x: Tensor, y: Tensor): Tensor =>
  backward(nn.functional.crossEntropy(model.forward(x), y));

/** Splits x into equal parts along dim 0, so that the mean of their means is the mean of x. */
function thirds(x: Tensor): Tensor[] {
  return x.split((x.shape[0] ?? 0) / 3);
}

const trainings = {
  'a multi-layer perceptron': { build: () => new Mlp() },
  'buckets of one parameter each': { build: () => new Mlp(), options: { bucketBytes: 1 } },
  'frozen parameters': { build: frozen },
  'a parameter that two modules share': { build: () => new Tied() },
  'two parameters of one gradient': { build: () => new TwoBiases() },
  'a model used twice in a step': {
    build: () => new Mlp(),
    pass: (parallel, x, y) =>
      backward(
        nn.functional.crossEntropy(parallel.forward(x).add(parallel.forward(x.mul(0.5))), y),
      ),
    reference: (model, x, y) =>
      backward(nn.functional.crossEntropy(model.forward(x).add(model.forward(x.mul(0.5))), y)),
  },
  'three passes of which the last one synchronises': {
    build: () => new Mlp(),
    pass: (parallel, x, y) => {
      const targets = thirds(y);
      const losses = thirds(x).map((part, index) => {
        const run = (): Tensor =>
          backward(nn.functional.crossEntropy(parallel.forward(part), targets[index] ?? y).div(3));
        return index < 2 ? parallel.noSync(run) : run();
      });
      return losses.reduce((sum, loss) => sum.add(loss));
    },
  },
  'two synchronised passes that accumulate': {
    build: () => new Mlp(),
    pass: (parallel, x, y) => plain(parallel, x, y).add(plain(parallel, x.neg(), y)),
    reference: (model, x, y) => plain(model, x, y).add(plain(model, x.neg(), y)),
  },
} satisfies Record<string, Training>;

type TrainingName = keyof typeof trainings;

const trainingNames = Object.keys(trainings).filter((name): name is TrainingName =>
  Object.hasOwn(trainings, name),
);

/** Returns this rank's rows of the step's batch. */
function batchOf(
  step: number,
  rank: number,
  size: number,
): { readonly x: Tensor; readonly y: Tensor } {
  const rows = globalBatch / size;
  const all = values(globalBatch * inputs, step + 1);
  const targets = Int32Array.from(values(globalBatch, step + 100), (value) =>
    Math.floor(((value + 1) / 2) * classes),
  );
  return {
    x: fromData(all.slice(rank * rows * inputs, (rank + 1) * rows * inputs), [rows, inputs], 'f32'),
    y: fromData(targets.slice(rank * rows, (rank + 1) * rows), [rows], 'i32'),
  };
}

/** Trains on this rank. The ranks begin with different weights, and must end up with those of rank 0. */
async function train(name: TrainingName, rank: number, size: number): Promise<WithHashes> {
  const { build, options, pass = plain }: Training = trainings[name];
  manualSeed(rank);
  const parallel: Parallel = await parallelize(build(), ddp(options));
  return run(parallel.module, rank, size, (x, y) => pass(parallel, x, y));
}

/** Trains without a strategy, on one rank. */
const trainedAlone = oncePerKey((name: TrainingName) => {
  const { build, reference = plain }: Training = trainings[name];
  manualSeed(0);
  const model = build();
  return run(model, 0, 1, (x, y) => reference(model, x, y));
});

interface WithHashes extends Trained {
  /** The SHA-256 of parameters and gradients after each step. */
  readonly hashes: readonly string[];
}

async function run(
  model: Net,
  rank: number,
  size: number,
  pass: (x: Tensor, y: Tensor) => Tensor,
): Promise<WithHashes> {
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.1, momentum: 0.9 });
  const losses: number[] = [];
  const hashes: string[] = [];
  for (let step = 0; step < steps; step++) {
    const { x, y } = batchOf(step, rank, size);
    optimizer.zeroGrad();
    const loss = pass(x, y);
    await optimizer.step();
    losses.push(await loss.item());
    const hash = createHash('sha256');
    for (const parameter of model.parameters()) {
      for (const each of [parameter, parameter.grad]) {
        if (each !== null) hash.update(Float32Array.from(await valuesOf(each)));
      }
    }
    hashes.push(hash.digest('hex'));
  }
  return { losses, state: await stateOf(model), hashes };
}

describe.each(trainingNames)('DistributedDataParallel of %s', (name) => {
  it.each([1, 2, 3, 4])(
    "on %i ranks has the losses and parameters of one rank that sees all ranks' items, with the same bits on all ranks after every step",
    async (size) => {
      const ranks = await onRanks(size, ({ rank }) => train(name, rank, size));
      const expected = await trainedAlone(name);
      expect(expected.losses).toHaveLength(steps);
      // Sums in another order are rounded differently, in proportion to the largest value.
      expectAsOneRank(ranks, expected, { rtol: 1e-5, atol: 0 }, { rtol: 0, atol: 1e-5 });
      for (const { hashes } of ranks) {
        expect(new Set(hashes).size).toBe(steps);
        expect(hashes).toEqual(ranks[0]?.hashes);
      }
    },
  );
});
