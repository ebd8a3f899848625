import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { Adam } from '../src/optim/adam.ts';
import { clipGradNorm } from '../src/optim/clip-grad-norm.ts';
import {
  DynamicLossScaler,
  type DynamicLossScalerOptions,
} from '../src/optim/dynamic-loss-scaler.ts';
import { LossScaler } from '../src/optim/loss-scaler.ts';
import { SGD } from '../src/optim/sgd.ts';
import { setRank } from '../src/rank.ts';
import { CheckpointError, ConfigError, TensorStateError } from '../src/spec/errors.ts';
import { tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { statistics } from '../src/timeline.ts';

beforeEach(() => setRank({ device: interpreter() }));

function scales(options: DynamicLossScalerOptions, overflows: readonly boolean[]): number[] {
  const scaler = new DynamicLossScaler(options);
  return overflows.map((overflow) => {
    scaler.adjust(overflow);
    return scaler.lossScale;
  });
}

const clean = (count: number): boolean[] => Array.from({ length: count }, () => false);

describe('the scale follows DeepSpeed’s rule', () => {
  test('without overflow it doubles after each window', () => {
    const found = scales({ initialScale: 2 ** 8, scaleWindow: 2 }, clean(7));
    expect(found).toEqual([256, 256, 512, 512, 1024, 1024, 2048]);
  });

  test('with nothing but overflows it halves down to the smallest', () => {
    const options = { initialScale: 2 ** 4, hysteresis: 1, throwAtMinScale: false };
    const found = scales(
      options,
      Array.from({ length: 8 }, () => true),
    );
    expect(found).toEqual([8, 4, 2, 1, 1, 1, 1, 1]);
  });

  test('two overflows, a window and one step without, one overflow', () => {
    const options = { initialScale: 2 ** 8, scaleWindow: 2, hysteresis: 1 };
    const found = scales(options, [true, true, ...clean(3), true]);
    expect(found).toEqual([2 ** 7, 2 ** 6, 2 ** 6, 2 ** 6, 2 ** 7, 2 ** 6]);
  });

  test('hysteresis lets overflows pass until the scale grows again', () => {
    const options = { initialScale: 2 ** 8, scaleWindow: 2, hysteresis: 2 };
    const found = scales(options, [true, true, true, ...clean(3), true, true]);
    expect(found).toEqual([256, 128, 64, 64, 64, 128, 128, 64]);
  });

  test('consecutive hysteresis counts anew after every step without overflow', () => {
    const options = { initialScale: 2 ** 8, hysteresis: 2, consecutiveHysteresis: true };
    const found = scales(options, [true, false, true, false, true, true]);
    expect(found).toEqual([256, 256, 256, 256, 256, 128]);
  });

  test('an overflow at the smallest scale throws', () => {
    const scaler = new DynamicLossScaler({ initialScale: 1, hysteresis: 1 });
    expect(() => scaler.adjust(true)).toThrow(TensorStateError);
  });

  test('a state that was saved goes on as the uninterrupted one', () => {
    const options = { initialScale: 2 ** 8, scaleWindow: 3 };
    const overflows = [false, true, true, false, false, false, false, true, false, true];
    const first = new DynamicLossScaler(options);
    for (const overflow of overflows.slice(0, 4)) first.adjust(overflow);
    const second = new DynamicLossScaler(options);
    second.loadStateDict(JSON.parse(JSON.stringify(first.stateDict())));
    for (const overflow of overflows.slice(4)) second.adjust(overflow);
    expect(second.lossScale).toBe(scales(options, overflows).at(-1));
  });

  test('refuses states and settings that no scaler has', () => {
    const scaler = new DynamicLossScaler();
    const state = { ...scaler.stateDict(), hysteresisLeft: 0 };
    expect(() => scaler.loadStateDict(state)).toThrow(CheckpointError);
    expect(() => new DynamicLossScaler({ scaleWindow: 0 })).toThrow(ConfigError);
    expect(() => new LossScaler(Infinity)).toThrow(ConfigError);
  });
});

/** A loss whose gradient is `slope` times x. */
function loss(x: Tensor, slope: number): Tensor {
  return x.square().sum().mul(tensor(slope)).mul(0.5);
}

async function snapshot(x: Tensor, optimizer: Adam): Promise<unknown> {
  return [await x.data(), (await optimizer.stateDict()).state];
}

describe('a scaled step', () => {
  test('is the step without a scaler, where the scale is a power of two', async () => {
    const [plain, scaled] = [
      tensor([1, -2, 3]).requiresGrad_(),
      tensor([1, -2, 3]).requiresGrad_(),
    ];
    const [first, second] = [new Adam([plain]), new Adam([scaled])];
    const scaler = new LossScaler(2 ** 10);
    for (let step = 1; step < 4; step++) {
      first.zeroGrad();
      loss(plain, step).backward();
      await first.step();
      second.zeroGrad();
      scaler.scale(loss(scaled, step)).backward();
      expect(await scaler.step(second)).toBe(true);
      scaler.update();
    }
    expect(await scaled.data()).toEqual(await plain.data());
  });

  test('with gradients that are not finite leaves parameters, states and counts as they are', async () => {
    const x = tensor([1, -2, 3]).requiresGrad_();
    const optimizer = new Adam([x]);
    const scaler = new DynamicLossScaler({ initialScale: 8, hysteresis: 1 });
    const step = async (slope: number): Promise<boolean> => {
      optimizer.zeroGrad();
      scaler.scale(loss(x, slope)).backward();
      const taken = await scaler.step(optimizer);
      scaler.update();
      return taken;
    };
    expect(await step(1)).toBe(true);
    const before = await snapshot(x, optimizer);
    expect(await step(Infinity)).toBe(false);
    expect(await step(NaN)).toBe(false);
    expect(await step(3e38)).toBe(false);
    expect(await snapshot(x, optimizer)).toEqual(before);
    expect(scaler.lossScale).toBe(1);
    expect(await step(1)).toBe(true);
    expect(await snapshot(x, optimizer)).not.toEqual(before);
  });

  test('is one run, of the same plan whatever the scale is', async () => {
    const x = tensor([1, -2, 3]).requiresGrad_();
    const optimizer = new SGD([x]);
    const scaler = new DynamicLossScaler({ scaleWindow: 1 });
    const step = async (): Promise<void> => {
      optimizer.zeroGrad();
      scaler.scale(loss(x, 1)).backward();
      await scaler.step(optimizer);
      scaler.update();
    };
    await step();
    await step();
    const before = statistics();
    for (let i = 0; i < 3; i++) await step();
    expect(statistics().plansMade).toBe(before.plansMade);
    expect(statistics().plansRun).toBe(before.plansRun + 3);
  });

  test('clips gradients that were unscaled before', async () => {
    const x = tensor([3, 4]).requiresGrad_();
    const optimizer = new SGD([x], { lr: 1 });
    const scaler = new LossScaler(2 ** 8);
    scaler.scale(loss(x, 1)).backward();
    scaler.unscale(optimizer);
    const norm = clipGradNorm([x], 1);
    await scaler.step(optimizer);
    expect(await norm.item()).toBe(5);
    const [a, b] = Array.from(await x.data(), Number);
    expect(a).toBeCloseTo(2.4, 5);
    expect(b).toBeCloseTo(3.2, 5);
  });

  test('of one of two optimizers is skipped by itself, and changes the scale once both have stepped', async () => {
    const [x, y] = [tensor([1]).requiresGrad_(), tensor([1]).requiresGrad_()];
    const optimizers = [new SGD([x], { lr: 1 }), new SGD([y], { lr: 1 })] as const;
    const scaler = new DynamicLossScaler({ initialScale: 8, hysteresis: 1 });
    scaler.scale(loss(x, Infinity)).backward();
    scaler.scale(loss(y, 0.25)).backward();
    expect(await scaler.step(optimizers[0])).toBe(false);
    expect(scaler.lossScale).toBe(8);
    expect(await scaler.step(optimizers[1])).toBe(true);
    scaler.update();
    expect(scaler.lossScale).toBe(4);
    expect([await x.item(), await y.item()]).toEqual([1, 0.75]);
  });
});

describe('calls that PyTorch refuses are refused', () => {
  const x = (): Tensor => tensor([1]).requiresGrad_();

  test.each<[string, (scaler: LossScaler, optimizer: SGD) => unknown]>([
    [
      'unscale() twice, as where optimizer.step() stands in the place of scaler.step()',
      async (scaler, optimizer) => {
        scaler.unscale(optimizer);
        await optimizer.step();
        scaler.unscale(optimizer);
      },
    ],
    [
      'unscale() after step()',
      async (scaler, optimizer) => {
        await scaler.step(optimizer);
        scaler.unscale(optimizer);
      },
    ],
    [
      'step() twice',
      async (scaler, optimizer) => {
        await scaler.step(optimizer);
        await scaler.step(optimizer);
      },
    ],
    ['update() without a step', async (scaler) => scaler.update()],
  ])('%s', async (_, calls) => {
    const leaf = x();
    const scaler = new LossScaler(8);
    scaler.scale(loss(leaf, 1)).backward();
    await expect(calls(scaler, new SGD([leaf]))).rejects.toThrow(TensorStateError);
  });
});
