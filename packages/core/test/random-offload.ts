import { interpreter } from '@shardwise/testing';
import { expect } from 'vitest';
import {
  checkpoint,
  type CheckpointOptions,
  keepProducts,
  offloadProducts,
} from '../src/nn/checkpoint.ts';
import { dropout } from '../src/nn/functional/dropout.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { SGD } from '../src/optim/sgd.ts';
import { hostPages } from '../src/paging/page.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { activationMemoryBudget } from '../src/recomputation/activation-memory-budget.ts';
import type { RecomputationChoice } from '../src/recomputation/recomputation-choice.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

const [rows, width] = [64, 8];

/** Returns numbers below a limit that only look random. */
function drawFrom(seed: number): (below: number) => number {
  let state = seed * 2654435761;
  return (below) => {
    state = (state * 1664525 + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

type Wrap = (forward: () => Tensor) => Tensor;
const plainly: Wrap = (forward) => forward();

/** A training whose layers, checkpoints inside of others, microbatches and order of backward passes follow from a seed. */
async function train(seed: number, outer: Wrap): Promise<readonly unknown[]> {
  setRank({ device: interpreter() });
  manualSeed(seed);
  const draw = drawFrom(seed);
  const layers = Array.from({ length: 4 + draw(6) }, () => ({
    linear: new Linear(width, width),
    operations: Array.from({ length: 1 + draw(3) }, () => draw(5)),
    inner: draw(12),
  }));
  const isPerLayer = draw(2) === 0;
  const microbatches = 1 + draw(3);
  const waits = draw(2) === 0;
  const isReversed = draw(2) === 0;
  const isReadEarly = draw(4) === 0;
  const inner: readonly CheckpointOptions[] = [
    {},
    { policy: keepProducts },
    { policy: offloadProducts, pages: hostPages() },
  ];
  const layerOf = (
    { linear, operations, inner: number }: (typeof layers)[number],
    x: Tensor,
  ): Tensor => {
    const forward = (): Tensor => {
      const made = operations.reduce((y, operation) => {
        if (operation === 0) return y.tanh();
        if (operation === 1) return y.gelu();
        if (operation === 2) return dropout(y, 0.3);
        return operation === 3 ? y.reshape([width, rows]).sin().reshape([rows, width]) : y.mul(y);
      }, linear.forward(x));
      return made.add(x);
    };
    const options = inner[number];
    // The plain run has no checkpoints.
    return options === undefined || outer === plainly ? forward() : checkpoint(forward, options);
  };
  const run = (x: Tensor): Tensor =>
    isPerLayer
      ? layers.reduce((y, layer) => outer(() => layerOf(layer, y)), x)
      : outer(() => layers.reduce((y, layer) => layerOf(layer, y), x));
  const parameters = layers.flatMap(({ linear }) => linear.parameters());
  const optimizer = new SGD(parameters, { lr: 0.1 });
  const losses: number[] = [];
  for (let step = 0; step < 2; step++) {
    optimizer.zeroGrad();
    const made: Tensor[] = [];
    for (let microbatch = 0; microbatch < microbatches; microbatch++) {
      const numbers = Float32Array.from({ length: rows * width }, (_, i) =>
        Math.sin(i + step + 7 * microbatch),
      );
      const loss = run(fromData(numbers, [rows, width], 'f32'))
        .square()
        .mean();
      if (isReadEarly) await loss.item();
      if (!waits) loss.backward();
      made.push(loss);
    }
    if (waits) for (const loss of isReversed ? made.toReversed() : made) loss.backward();
    await optimizer.step();
    for (const loss of made) losses.push(await loss.item());
  }
  return [losses, ...(await Promise.all(parameters.map((parameter) => parameter.data())))];
}

/** Trains within a share of what a pass takes if everything is kept, or within the least that does. */
async function trainWithin(
  seed: number,
  share: number,
): Promise<{ values: readonly unknown[]; choices: readonly RecomputationChoice[] }> {
  const choices: RecomputationChoice[] = [];
  const pages = hostPages();
  // A move takes the time of recomputing a tanh and some more.
  const flopsPerSecond = [1e7, 5e9, 5e10][seed % 3] ?? 0;
  const within = (bytes: number): Promise<readonly unknown[]> => {
    choices.length = 0;
    const onChoice = (choice: RecomputationChoice): number => choices.push(choice);
    const policy = activationMemoryBudget({
      bytes,
      onChoice,
      flopsPerSecond,
      pageBytesPerSecond: 1e9,
    });
    return train(seed, (forward) => checkpoint(forward, { policy, pages }));
  };
  await within(1e12);
  let bytes = Math.round(
    share * Math.max(...choices.map(({ plannedBytesOfNone }) => plannedBytesOfNone)),
  );
  for (;;) {
    try {
      return { values: await within(bytes), choices };
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      bytes = Number(error.fields.leastBytes);
    }
  }
}

/** How many programs recomputed values, moved some, and did both. */
export interface Chosen {
  readonly recomputed: number;
  readonly offloaded: number;
  readonly both: number;
}

/** Expects that programs within a budget have the bits of the plain ones. */
export async function expectSameBits(seeds: readonly number[]): Promise<Chosen> {
  const counts = { recomputed: 0, offloaded: 0, both: 0 };
  for (const seed of seeds) {
    const { values, choices } = await trainWithin(seed, 0.3 + (seed % 5) / 10);
    expect(values, `seed ${seed}`).toEqual(await train(seed, plainly));
    const has = (way: 'recomputed' | 'offloaded'): boolean =>
      choices.some((choice) => choice[way].length > 0);
    if (has('recomputed')) counts.recomputed++;
    if (has('offloaded')) counts.offloaded++;
    if (has('recomputed') && has('offloaded')) counts.both++;
  }
  return counts;
}
