import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import { beforeAll, describe, expect, test } from 'vitest';
import { checkpoint, type CheckpointPolicy, keepProducts } from '../src/nn/checkpoint.ts';
import { dropout } from '../src/nn/functional/dropout.ts';
import { LayerNorm } from '../src/nn/norm/layer-norm.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { AdamW } from '../src/optim.ts';
import { hostPages } from '../src/paging/page.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import {
  activationMemoryBudget,
  type RecomputationChoice,
} from '../src/recomputation/activation-memory-budget.ts';
import { ConfigError } from '../src/spec/errors.ts';
import { fromData } from '../src/tensor/create.ts';
import type { Parameter } from '../src/nn/parameter/parameter.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { statistics } from '../src/timeline.ts';

const [rows, width, depth, steps] = [128, 32, 6, 2];

class Block {
  readonly #norm = new LayerNorm(width);
  readonly #up = new Linear(width, 4 * width);
  readonly #down = new Linear(4 * width, width);

  forward(x: Tensor): Tensor {
    const hidden = this.#up.forward(this.#norm.forward(x)).gelu();
    return x.add(dropout(this.#down.forward(hidden), 0.1));
  }

  parameters(): readonly Parameter[] {
    return [this.#norm, this.#up, this.#down].flatMap((layer) => layer.parameters());
  }
}

type Forward = (blocks: readonly Block[], x: Tensor) => Tensor;
const plainly: Forward = (blocks, x) => blocks.reduce((y, block) => block.forward(y), x);
const eachBlock =
  (policy: CheckpointPolicy): Forward =>
  (blocks, x) =>
    blocks.reduce((y, block) => checkpoint(() => block.forward(y), { policy }), x);

/** Trains for some steps. The bytes are those of a pass at its peak, besides parameters and moments. */
async function train(forward: Forward): Promise<{ values: unknown; passBytes: number }> {
  const device = await cpu();
  setRank({ device });
  manualSeed(1);
  const blocks = Array.from({ length: depth }, () => new Block());
  const parameters = blocks.flatMap((block) => block.parameters());
  const optimizer = new AdamW([...parameters], { lr: 0.01 });
  const losses: number[] = [];
  for (let step = 0; step < steps; step++) {
    optimizer.zeroGrad();
    const numbers = Float32Array.from({ length: rows * width }, (_, i) => Math.sin(i + step));
    const loss = forward(blocks, fromData(numbers, [rows, width], 'f32'))
      .square()
      .mean();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const values = await Promise.all(parameters.map((parameter) => parameter.data()));
  const statesBytes = parameters.reduce((sum, { numel }) => sum + 12 * numel, 0);
  return { values: [losses, values], passBytes: device.usage().peakBytes - statesBytes };
}

interface Budgeted {
  readonly values: unknown;
  readonly passBytes: number;
  readonly choices: readonly RecomputationChoice[];
}

async function trainWithin(bytes: number, isPerBlock = false): Promise<Budgeted> {
  const choices: RecomputationChoice[] = [];
  const policy = activationMemoryBudget({ bytes, onChoice: (choice) => choices.push(choice) });
  const forward: Forward = (blocks, x) =>
    isPerBlock
      ? blocks.reduce((y, block) => checkpoint(() => block.forward(y), { policy }), x)
      : checkpoint(() => plainly(blocks, x), { policy });
  return { ...(await train(forward)), choices };
}

describe('an activation memory budget', () => {
  let plain: Awaited<ReturnType<typeof train>>;
  beforeAll(async () => {
    plain = await train(plainly);
  });

  test.each([0.8, 0.6])(
    'of %d times the bytes of a pass is kept within, with the same bits',
    async (share) => {
      const bytes = Math.round(share * plain.passBytes);
      const { values, passBytes, choices } = await trainWithin(bytes);
      expect(values).toEqual(plain.values);
      expect(passBytes).toBeLessThan(1.05 * bytes);
      expect(passBytes).toBeGreaterThan(0.95 * bytes);
      // The plan says what the device will allocate. Besides, there are the inputs of the pass, and the loss.
      expect(Math.abs(passBytes - (choices[0]?.plannedBytes ?? 0))).toBeLessThan(0.02 * bytes);
      // Later steps have the structure of the first one.
      expect(choices).toHaveLength(1);
    },
  );

  test('that is large enough recomputes nothing, and the pass is as if there were no checkpoint', async () => {
    const { passBytes, choices } = await trainWithin(2 * plain.passBytes);
    expect(choices).toMatchObject([{ recomputed: [], recomputedFlops: 0 }]);
    expect(passBytes).toBe(plain.passBytes);
  });

  test('computes no more products again than the way of recomputing blocks that fits', async () => {
    const productsKept = await train(eachBlock(keepProducts));
    const selective = await trainWithin(productsKept.passBytes);
    expect(selective.choices[0]?.recomputedFlops).toBe(0);
    const full = await train(eachBlock(() => 'recompute'));
    const within = await trainWithin(full.passBytes);
    const flopsOfForward = depth * 2 * (2 * rows * width * 4 * width);
    expect(within.passBytes).toBeLessThanOrEqual(1.05 * full.passBytes);
    expect(within.choices[0]?.recomputedFlops).toBeLessThanOrEqual(flopsOfForward);
  });

  test('may be shared by several checkpoints', async () => {
    const bytes = Math.round(0.7 * plain.passBytes);
    const { values, passBytes, choices } = await trainWithin(bytes, true);
    expect(values).toEqual(plain.values);
    expect(passBytes).toBeLessThan(1.05 * bytes);
    expect(choices).toHaveLength(1);
  });

  test('that nothing meets is an error that says the least', async () => {
    const error = await trainWithin(1e4).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(ConfigError);
    const least = error instanceof ConfigError ? Number(error.fields['leastBytes']) : 0;
    expect(least).toBeLessThan(0.5 * plain.passBytes);
    const { passBytes } = await trainWithin(least);
    expect(passBytes).toBeLessThanOrEqual(1.05 * least);
  });

  test('compiles nothing anew in later steps', async () => {
    setRank({ device: interpreter() });
    const block = new Block();
    const policy = activationMemoryBudget({ bytes: 4.5e5 });
    const compiled: number[] = [];
    for (let step = 0; step < 3; step++) {
      const x = fromData(new Float32Array(rows * width), [rows, width], 'f32');
      const loss = checkpoint(() => block.forward(x), { policy }).mean();
      loss.backward();
      await loss.item();
      for (const parameter of block.parameters()) parameter.zeroGrad();
      compiled.push(statistics().programsCompiled);
    }
    expect(compiled[2]).toBe(compiled[0]);
  });

  test('takes no pages', () => {
    const policy = activationMemoryBudget({ bytes: 1e6 });
    const run = (): unknown =>
      checkpoint(() => fromData([1], [1], 'f32'), { policy, pages: hostPages() });
    expect(run).toThrow(ConfigError);
  });
});
