import { setTimeout as delay } from 'node:timers/promises';
import { createGroup, createLoopbackTransports, monitoredBarrier } from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/spec';
import { describe, expect, it, onTestFinished, vi } from 'vitest';

function world(size: number): readonly ProcessGroup[] {
  return createLoopbackTransports(size).map((transport) => createGroup(transport));
}

/**
 * Returns what each rank's barrier rejects with. Undefined for ranks that do not come, and for barriers that succeed.
 */
function outcomes(
  groups: readonly ProcessGroup[],
  coming: readonly number[],
  options: { readonly timeoutMs: number; readonly waitAllRanks?: boolean },
): Promise<readonly unknown[]> {
  return Promise.all(
    groups.map(async (group) => {
      if (!coming.includes(group.rank)) return undefined;
      return monitoredBarrier(group, options).catch((error: unknown) => error);
    }),
  );
}

describe('monitoredBarrier', () => {
  it('names the first rank that has not come, to all that have', async () => {
    const [first, ...others] = await outcomes(world(4), [0, 2], { timeoutMs: 50 });
    expect(first).toMatchObject({
      code: 'COLLECTIVE_TIMEOUT',
      message: expect.stringContaining('rank 1 failed to pass it in 50 ms'),
      fields: { missing: [1] },
    });
    expect(others[1]).toMatchObject({
      code: 'COLLECTIVE_ABORTED',
      message: expect.stringContaining('rank 1 failed to pass it in 50 ms'),
    });
  });

  it('names all of them with waitAllRanks', async () => {
    const [first] = await outcomes(world(4), [0, 2], { timeoutMs: 50, waitAllRanks: true });
    expect(first).toMatchObject({
      message: expect.stringContaining('ranks 1, 3 failed to pass it in 50 ms'),
      fields: { missing: [1, 3] },
    });
  });

  it('names rank 0 where that one does not come', async () => {
    const [, ...others] = await outcomes(world(3), [1, 2], { timeoutMs: 50 });
    for (const error of others) {
      expect(error).toMatchObject({ message: expect.stringContaining('rank 0') });
    }
  });

  it('a rank that waits since long does not blame rank 0 for another that is missing', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const groups = world(3);
    const early = monitoredBarrier(groups[1]!, { timeoutMs: 200 }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(150);
    const late = monitoredBarrier(groups[0]!, { timeoutMs: 200 }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(1000);
    for (const error of await Promise.all([early, late])) {
      expect(error).toMatchObject({
        message: expect.stringContaining('rank 2 failed to pass it in 200 ms'),
      });
    }
  });

  it('nobody passes before the last one comes', async () => {
    const groups = world(3);
    const passed: number[] = [];
    const barriers = groups.map(async (group) => {
      await delay(20 * group.rank);
      if (group.rank === 2) expect(passed).toEqual([]);
      await monitoredBarrier(group, { timeoutMs: 5000 });
      passed.push(group.rank);
    });
    await Promise.all(barriers);
    expect(passed.toSorted((a, b) => a - b)).toEqual([0, 1, 2]);
  });

  it('passes while a collective is stuck that not all ranks have called', async () => {
    const [first, second] = world(2);
    const stuck = first!.barrier();
    await Promise.all([monitoredBarrier(first!), monitoredBarrier(second!)]);
    await Promise.all([stuck, second!.barrier()]);
  });

  it('a time limit that no timer takes is refused', async () => {
    const [alone] = world(1);
    await expect(monitoredBarrier(alone!, { timeoutMs: 0 })).rejects.toThrow('timeoutMs 0');
    await expect(monitoredBarrier(alone!, { timeoutMs: 2 ** 31 })).rejects.toThrow('2147483648');
  });
});
