import { cpu } from '@shardwise/backend-cpu';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { BatchNorm2d } from '../src/nn/norm/batch-norm-layers.ts';
import { PIECE_OPS } from '../src/realize/collect/pieces.ts';
import { currentSession, setRank } from '../src/rank.ts';
import { fromData, ones, tensor } from '../src/tensor/create.ts';
import type { Tensor } from '../src/tensor/tensor.ts';
import { statistics } from '../src/timeline.ts';

beforeEach(() => setRank({ device: interpreter() }));

function sumOf(count: number): Tensor {
  let total = tensor(0);
  for (let i = 0; i < count; i++)
    total = total.add(fromData(Float32Array.of(i % 7), [], 'f32').mul(2));
  return total;
}

function expectedSum(count: number): number {
  return Array.from({ length: count }, (_, i) => (i % 7) * 2).reduce((sum, each) => sum + each, 0);
}

describe('a long program that nobody has read', () => {
  it('is computed in pieces of one plan, however long it is', async () => {
    const made: number[] = [];
    for (const count of [3 * PIECE_OPS, 5 * PIECE_OPS, 8 * PIECE_OPS]) {
      const before = statistics().plansMade;
      expect(await sumOf(count).item()).toBe(expectedSum(count));
      made.push(statistics().plansMade - before);
    }
    // The pieces in the middle share one plan. The first and the last piece may differ from them.
    expect(made[0]).toBeLessThanOrEqual(3);
    expect(made[1]).toBeLessThanOrEqual(1);
    expect(made[2]).toBeLessThanOrEqual(1);
  });

  it('gives what it gives read step by step, updates in place included', async () => {
    const run = async (reads: boolean): Promise<unknown> => {
      const state = tensor([1, 2]).makeResident();
      let total = tensor([0, 0]);
      for (let i = 0; i < 2 * PIECE_OPS; i++) {
        const before = state.detach();
        state.assign(state.mul(0.999).add(i % 3));
        total = total.add(state.sub(before)).mul(0.5);
        if (reads && i % 50 === 0) await total.data();
      }
      return [await total.data(), await state.data()];
    };
    expect(await run(false)).toEqual(await run(true));
  });

  it('whose values cross everywhere stays whole', async () => {
    let x = ones([130, 130]);
    for (let i = 0; i < 2 * PIECE_OPS; i++) x = x.neg();
    const before = statistics().plansRun;
    expect((await x.mean().data())[0]).toBe(1);
    expect(statistics().plansRun - before).toBe(1);
  });
});

describe('forward passes of batch normalisation that nobody reads', () => {
  it('are computed on the way, so that they do not hold all their inputs', async () => {
    setRank({ device: await cpu() });
    const norm = new BatchNorm2d(2);
    const before = statistics().plansRun;
    for (let i = 0; i < 200; i++) norm.forward(ones([2, 2, 3, 3]).mul(i));
    await currentSession().realize([]);
    expect(statistics().plansRun - before).toBeGreaterThanOrEqual(3);
    expect(await norm.numBatchesTracked.item()).toBe(200);
    const reference = new BatchNorm2d(2);
    for (let i = 0; i < 200; i++) await reference.forward(ones([2, 2, 3, 3]).mul(i)).data();
    expect(await norm.runningMean.data()).toEqual(await reference.runningMean.data());
  });
});

describe('gradients of many passes before a step', () => {
  it('are added up on the way', async () => {
    const x = tensor([1, 2]).requiresGrad_();
    const before = statistics().plansRun;
    for (let i = 0; i < 300; i++) x.mul(i).sum().backward();
    expect([...((await x.grad?.data()) ?? [])]).toEqual([44850, 44850]);
    expect(statistics().plansRun - before).toBeGreaterThanOrEqual(4);
  });

  it('what fails on the way is told by the next call', async () => {
    const freed = await ones([300]).mul(1).realize();
    const norm = new BatchNorm2d(3);
    const bad = freed.reshape([1, 3, 10, 10]);
    norm.forward(bad);
    freed.dispose();
    currentSession().flush();
    await new Promise((resolve) => setTimeout(resolve, 0));
    await expect(ones([2]).sum().item()).rejects.toThrow(/freed by dispose/);
    expect(await ones([2]).sum().item()).toBe(2);
    expect([...(await norm.runningMean.data())]).toEqual([0, 0, 0]);
  });
});

describe('a call that is made while what was begun ahead still runs', () => {
  it('throws what that fails with', async () => {
    const freed = await ones([300]).mul(1).realize();
    new BatchNorm2d(3).forward(freed.reshape([1, 3, 10, 10]));
    freed.dispose();
    currentSession().flush();
    await expect(ones([2]).sum().item()).rejects.toThrow(/freed by dispose/);
  });
});

describe('a loop that awaits nothing but computing', () => {
  it('lets timers have their turn', async () => {
    let ticks = 0;
    const timer = setInterval(() => ticks++, 1);
    const start = performance.now();
    while (performance.now() - start < 100) await ones([10]).mul(2).data();
    clearInterval(timer);
    expect(ticks).toBeGreaterThan(0);
  });

  it('does not run out of memory by results that it has dropped', async () => {
    const device = await cpu({ byteLength: 64 * 2 ** 20 });
    setRank({ device });
    for (let i = 0; i < 300; i++) await ones([512, 512]).mul(i).realize();
    expect(device.usage().peakBytes).toBeLessThanOrEqual(64 * 2 ** 20);
  });
});
