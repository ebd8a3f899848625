import { cpu } from '@shardwise/backend-cpu';
import { nn, ones, setRank, type Tensor } from '@shardwise/core';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { createUtilization, type Utilization } from '../src/rank/utilization.ts';

const peak = { f32: 1e6, half: 2e6 };
const products = 2 * 4 * 8 * 8;

/** The figures of a step of 2 seconds. */
async function figuresOf(
  utilization: Utilization | null,
  step: () => Promise<unknown>,
  tokens?: number,
): Promise<Readonly<Record<string, number>> | undefined> {
  const clock = vi.spyOn(performance, 'now');
  clock.mockReturnValueOnce(1000);
  utilization?.take(undefined);
  clock.mockRestore();
  await step();
  clock.mockReset();
  vi.spyOn(performance, 'now').mockReturnValueOnce(3000);
  const figures = utilization?.take(tokens);
  vi.restoreAllMocks();
  utilization?.close();
  return figures;
}

beforeEach(async () => setRank({ device: await cpu() }));

describe('the utilization of a rank', () => {
  const layers = (): nn.Sequential =>
    new nn.Sequential(
      new nn.Linear(8, 8, { bias: false }),
      new nn.GELU(),
      new nn.Linear(8, 8, { bias: false }),
      new nn.GELU(),
    );
  const train = async (forward: (model: nn.Sequential, x: Tensor) => Tensor): Promise<void> => {
    const model = layers();
    const loss = forward(model, ones([4, 8]).requiresGrad_()).sum();
    loss.backward();
    await loss.item();
  };

  it('is the products of forward and backward passes over those of the peak in the time of the step', async () => {
    const utilization = await createUtilization({ peak });
    const figures = await figuresOf(utilization, () => train((model, x) => model.forward(x)));
    const mfu = (6 * products) / (2 * peak.f32);
    expect(figures?.['utilization/MFU']).toBeCloseTo(mfu, 12);
    expect(figures?.['utilization/HFU']).toBeCloseTo(mfu, 12);
  });

  it('counts what a backward pass computes again for the hardware alone, which is 4/3 of the model for all of it', async () => {
    const utilization = await createUtilization({ peak });
    const figures = await figuresOf(utilization, () =>
      train((model, x) => nn.checkpoint(() => model.forward(x))),
    );
    expect(figures?.['utilization/MFU']).toBeCloseTo((6 * products) / (2 * peak.f32), 12);
    expect(figures?.['utilization/HFU']).toBeCloseTo((8 * products) / (2 * peak.f32), 12);
  });

  it('counts products of 16 bits by their own peak', async () => {
    const utilization = await createUtilization({ peak });
    const x = ones([4, 8], 'bf16');
    const figures = await figuresOf(utilization, () => x.matmul(ones([8, 8], 'bf16')).data());
    expect(figures?.['utilization/MFU']).toBeCloseTo(products / (2 * peak.half), 12);
  });

  it('is the tokens per second over those of a paper', async () => {
    // 82,432 hours of a GPU for 10^12 tokens.
    const utilization = await createUtilization({ throughput: 'llama-7b' });
    const figures = await figuresOf(utilization, async () => {}, 2 * 1536);
    expect(figures).toEqual({ 'utilization/throughput': expect.closeTo(1536 / 3369.8, 4) });
    expect(utilization?.facts['throughput of comparison']).toContain('Touvron et al. 2023');
  });

  it('takes only a known device, positive figures, and at least one of both', async () => {
    expect(await createUtilization(undefined)).toBeNull();
    await expect(createUtilization({})).rejects.toThrow(/neither a peak nor a throughput/);
    await expect(createUtilization({ peak: { f32: 0, half: 1 } })).rejects.toThrow(/f32, half/);
    // @ts-expect-error no such device
    await expect(createUtilization({ peak: 'Z80' })).rejects.toThrow(/A100/);
  });
});
