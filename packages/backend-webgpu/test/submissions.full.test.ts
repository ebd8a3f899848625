import { IndexError, manualSeed, rand, setRank, tensor } from '@shardwise/core';
import { subscribe, type TimelineEvent } from '@shardwise/core/extend';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterEach, describe, expect, test } from 'vitest';
import { webgpu, type WebGpuBackend, type WebGpuOptions } from '../src/index.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `submissions${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: WebGpuBackend | undefined;
    const open = async (options?: WebGpuOptions): Promise<WebGpuBackend> => {
      device = await webgpu(options);
      setRank({ device });
      return device;
    };
    afterEach(() => device?.close());

    test('of long work are several, each for the stated time at most, and give the same bits', async () => {
      const product = async (options?: WebGpuOptions) => {
        const own = await open(options);
        manualSeed(1);
        const x = rand([160, 160]);
        await x.realize();
        const before = own.submissions;
        const result = await x.matmul(x.add(1)).exp().softmax(1).data();
        own.close();
        return { result, submissions: own.submissions - before };
      };
      const whole = await product();
      const divided = await product({ submissionMs: 1 });
      expect(whole.submissions).toBe(1);
      // The product has 160³ terms, and the device computes a million per millisecond: five submissions for its parts,
      // and some before and after them.
      expect(divided.submissions).toBeGreaterThanOrEqual(5);
      expect(divided.submissions).toBeLessThanOrEqual(8);
      expect(divided.result).toEqual(whole.result);
    }, 60_000);

    test('of one program tell one time', async () => {
      const own = await open({ submissionMs: 1 });
      const x = rand([160, 160]);
      await x.realize();
      const events: TimelineEvent[] = [];
      const unsubscribe = subscribe((event) => events.push(event));
      await x.matmul(x).data();
      unsubscribe();
      expect(own.submissions).toBeGreaterThan(2);
      expect(events.filter(({ category }) => category === 'compute')).toHaveLength(1);
    }, 60_000);

    test('say what they found of indices before the rest of a program is done, which updates nothing then', async () => {
      const own = await open();
      const table = rand([10, 64]);
      const counts = tensor([4.5, 9.5, 10.5]).to('i32');
      await Promise.all([table.realize(), counts.realize()]);
      const [submissions, reads] = [own.submissions, own.reads];
      const rows = table.indexSelect(0, counts).matmul(table.transpose(0, 1));
      await expect(rows.realize()).rejects.toThrow(IndexError);
      expect(own.submissions - submissions).toBe(2);
      expect(own.reads - reads).toBe(1);
    }, 60_000);

    test('need no verdict about indices whose bounds an earlier program left', async () => {
      const own = await open();
      const table = rand([10, 8]);
      const best = rand([5, 10]).argMax(1);
      await Promise.all([table.realize(), best.realize()]);
      const [submissions, reads] = [own.submissions, own.reads];
      const rows = table.indexSelect(0, best);
      await rows.realize();
      expect(own.reads - reads).toBe(0);
      expect(own.submissions - submissions).toBe(1);
      expect((await rows.data()).length).toBe(40);
    }, 60_000);
  },
);
