import {
  arange,
  hostPages,
  manualSeed,
  nn,
  noGrad,
  optim,
  type PageStore,
  setRank,
  type Tensor,
} from '@shardwise/core';
import { webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';

const reason = await reasonWithoutDevice(webgpu);
const [rows, width] = [64, 32];

/** Trains for two steps. The bytes are those of a pass at its peak, besides parameters and moments. */
async function train(depth: number, within?: number, pages?: PageStore) {
  const device = await webgpu();
  setRank({ device });
  manualSeed(1);
  const layer = () =>
    new nn.Sequential(
      new nn.LayerNorm(width),
      new nn.Linear(width, 4 * width),
      new nn.GELU(),
      new nn.Linear(4 * width, width),
    );
  const layers = Array.from({ length: depth }, layer);
  const parameters = layers.flatMap((each) => [...each.parameters()]);
  const optimizer = new optim.AdamW(parameters, { lr: 0.01 });
  const choices: nn.RecomputationChoice[] = [];
  const policy =
    within === undefined
      ? undefined
      : nn.activationMemoryBudget({
          bytes: within,
          onChoice: (made) => choices.push(made),
          // With pages, values are moved sooner than they are recomputed.
          ...(pages && { flopsPerSecond: 1e6, pageBytesPerSecond: 1e12 }),
        });
  const options = policy && (pages ? { policy, pages } : { policy });
  const forward = (x: Tensor): Tensor => layers.reduce((y, each) => y.add(each.forward(y)), x);
  const losses: number[] = [];
  for (let step = 0; step < 2; step++) {
    optimizer.zeroGrad();
    const x = arange(rows * width)
      .to('f32')
      .add(step)
      .sin()
      .reshape([rows, width]);
    const y = options === undefined ? forward(x) : nn.checkpoint(() => forward(x), options);
    const loss = y.square().mean();
    if (step === 0) await noGrad(() => forward(x).square().mean()).item();
    loss.backward();
    await optimizer.step();
    losses.push(await loss.item());
  }
  const statesBytes = parameters.reduce((sum, { numel }) => sum + 12 * numel, 0);
  const passBytes = device.usage().peakBytes - statesBytes;
  device.close();
  return { losses, passBytes, choices };
}

describe.skipIf(reason !== undefined)(
  `an activation memory budget on a GPU${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    test.each([
      ['recomputing values', 'recomputed', 4, undefined],
      ['moving values to pages', 'offloaded', 6, hostPages()],
    ] as const)(
      'is kept within by %s, with the same losses',
      async (_, chosen, depth, pages) => {
        const plain = await train(depth);
        const bytes = Math.round(0.7 * plain.passBytes);
        const { losses, passBytes, choices } = await train(depth, bytes, pages);
        expect(losses).toEqual(plain.losses);
        const choice = choices.at(-1);
        expect(choice?.[chosen].length).toBeGreaterThan(0);
        expect(passBytes).toBeLessThan(1.05 * bytes);
        expect(passBytes).toBeGreaterThan(0.9 * bytes);
        // An evaluation has its temporary values where a step has them. Besides, there is the loss.
        expect(Math.abs(passBytes - (choice?.plannedBytes ?? 0))).toBeLessThan(0.002 * bytes);
      },
      240_000,
    );
  },
);
