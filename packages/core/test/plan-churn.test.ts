import { interpreter } from '@shardwise/testing';
import { nn, ones, optim, setRank, statistics, tensor, type Tensor } from '@shardwise/core';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

const warn = vi.spyOn(console, 'warn').mockImplementation(() => {});

beforeEach(() => {
  warn.mockClear();
  setRank({ device: interpreter({ sized: false }) });
});

afterEach(() => vi.clearAllMocks());

async function steps(count: number, lossOf: (model: nn.Linear, step: number) => Tensor) {
  const model = new nn.Linear(2, 2);
  const optimizer = new optim.AdamW(model.parameters());
  for (let step = 0; step < count; step++) {
    const loss = lossOf(model, step);
    optimizer.zeroGrad();
    loss.backward();
    await optimizer.step();
    await loss.item();
  }
}

describe('a program whose runs each make a plan, on a device that needs one for each size', () => {
  it('is told once, with the line whose size changes', async () => {
    await steps(140, (model, step) => {
      const x = ones([1 + step, 2]);
      return model.forward(x).mean();
    });
    expect(warn).toHaveBeenCalledOnce();
    expect(warn.mock.calls[0]?.[0]).toMatch(
      /shardwise: nearly every run .*plan-churn\.test\.ts:\d+:\d+ makes a tensor of shape \[\d+, 2\]/,
    );
  });

  it('is told of a parameter of an operation that changes', async () => {
    const all = tensor(Array.from({ length: 200 }, (_, index) => [index / 200, 1]));
    await steps(140, (model, step) => model.forward(all.slice(0, step, step + 4)).mean());
    expect(warn).toHaveBeenCalledOnce();
    expect(warn.mock.calls[0]?.[0]).toMatch(/plan-churn\.test\.ts:\d+:\d+ makes slice /);
  });

  it('is not told of numbers that change, of a few sizes, or of many programs that are used again', async () => {
    const before = statistics().plansMade;
    await steps(100, (model, step) =>
      model
        .forward(ones([1 + (step % 20), 2]))
        .mul(1 + step / 1e4)
        .mean(),
    );
    expect(statistics().plansMade - before).toBeLessThan(80);
    expect(warn).not.toHaveBeenCalled();
  });
});
