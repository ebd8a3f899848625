import { cpu, type CpuBackend } from '@shardwise/backend-cpu';
import { fromData, manualSeed, nn, optim, type Strategy } from '@shardwise/core';
import { auto } from '@shardwise/planner';
import { fsdp, memory, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';

test('a model trains on two ranks in the memory that auto() was given, with the same bits', async () => {
  const [rows, width] = [256, 64];
  const block = (): nn.Sequential =>
    new nn.Sequential(
      new nn.Linear(width, 4 * width),
      new nn.GELU(),
      new nn.Linear(4 * width, width),
    );
  const makeModel = (): nn.Sequential => new nn.Sequential(block(), block(), block(), block());
  /** Trains for two steps, and returns the losses and the most bytes that a rank had in use. */
  const steps = async (strategy: Strategy): Promise<{ losses: number[]; peak: number }> => {
    manualSeed(3);
    const model = makeModel();
    const parallel = await parallelize(model, strategy);
    const optimizer = new optim.AdamW(model.parameters(), { lr: 0.1 });
    const losses: number[] = [];
    for (let step = 0; step < 2; step++) {
      optimizer.zeroGrad();
      const x = fromData(new Float32Array(rows * width).fill(step + 1), [rows, width], 'f32');
      const loss = parallel.forward(x).square().mean();
      loss.backward();
      await optimizer.step();
      losses.push(await loss.item());
    }
    return { losses, peak: memory({ model, optimizer }).peakBytes ?? 0 };
  };
  const createDevice = (): Promise<CpuBackend> => cpu();
  const [whole] = await onRanks(2, () => steps(fsdp()), { createDevice });
  const memoryBytes = Math.round(0.9 * (whole?.peak ?? 0));
  const strategy = (): Strategy => auto({ memoryBytes, activationBytes: 4e6 });
  const [within] = await onRanks(2, () => steps(strategy()), { createDevice });
  expect(within?.losses).toEqual(whole?.losses);
  expect(within?.peak).toBeLessThan(1.05 * memoryBytes);
});
