import { arange, manualSeed, nn, noGrad, optim, setRank, type Tensor } from '@shardwise/core';
import { webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, test } from 'vitest';

const reason = await reasonWithoutDevice(webgpu);
const [rows, width, depth] = [64, 32, 4];

/** Trains for two steps. The bytes are those of a pass at its peak, besides parameters and moments. */
async function train(within?: number) {
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
  const choices: { plannedBytes: number; recomputed: readonly unknown[] }[] = [];
  const policy =
    within === undefined
      ? undefined
      : nn.activationMemoryBudget({ bytes: within, onChoice: (made) => choices.push(made) });
  const forward = (x: Tensor): Tensor => layers.reduce((y, each) => y.add(each.forward(y)), x);
  const losses: number[] = [];
  for (let step = 0; step < 2; step++) {
    optimizer.zeroGrad();
    const x = arange(rows * width)
      .to('f32')
      .add(step)
      .sin()
      .reshape([rows, width]);
    const y = policy === undefined ? forward(x) : nn.checkpoint(() => forward(x), { policy });
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
    test('is kept within, with the same losses', async () => {
      const plain = await train();
      const bytes = Math.round(0.7 * plain.passBytes);
      const { losses, passBytes, choices } = await train(bytes);
      expect(losses).toEqual(plain.losses);
      const choice = choices.at(-1);
      expect(choice?.recomputed.length).toBeGreaterThan(0);
      expect(passBytes).toBeLessThan(1.05 * bytes);
      expect(passBytes).toBeGreaterThan(0.9 * bytes);
      // An evaluation has its temporary values where a step has them. Besides, there is the loss.
      expect(Math.abs(passBytes - (choice?.plannedBytes ?? 0))).toBeLessThan(0.002 * bytes);
    }, 120_000);
  },
);
