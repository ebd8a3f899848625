import {
  IndexError,
  manualSeed,
  nn,
  optim,
  rand,
  setRank,
  statistics,
  type Tensor,
  tensor,
} from '@shardwise/core';
import { subscribe, type TimelineEvent } from '@shardwise/core/extend';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openGpu } from './open-gpu.ts';
import { webgpu } from '../src/index.ts';
import { WebGpuBackend } from '../src/webgpu-backend.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `steps under way${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: WebGpuBackend;
    let table: nn.Embedding;
    let step: (words: number[]) => Promise<Tensor>;

    beforeAll(async () => {
      device = await webgpu();
      setRank({ device });
      manualSeed(0);
      table = new nn.Embedding(10, 8);
      const head = new nn.Linear(8, 10);
      const optimizer = new optim.AdamW([...table.parameters(), ...head.parameters()]);
      step = async (words) => {
        optimizer.zeroGrad();
        const indices = tensor(words, 'i32');
        const loss = nn.functional.crossEntropy(head.forward(table.forward(indices)), indices);
        loss.backward();
        await optimizer.step();
        return loss;
      };
      for (let i = 0; i < 3; i++) await (await step([i, 1, 9])).item();
    }, 60_000);
    afterAll(() => device.close());

    test('wait for no verdict about indices that the host wrote, and are at most two', async () => {
      const [reads, waits] = [device.reads, device.waits];
      for (let i = 0; i < 8; i++) await step([i, 0, 9]);
      expect(device.reads - reads).toBe(0);
      // The second of the eight steps is the first that can find another step under way.
      expect(device.waits - waits).toBeLessThanOrEqual(7);
    });

    test('go on while a loss is read: one map for each, and the losses are those of steps that wait', async () => {
      const reads = device.reads;
      const losses: Promise<number>[] = [];
      let waiting = 0;
      for (let i = 0; i < 5; i++) {
        const loss = (await step([i, 2, 9])).item();
        waiting++;
        losses.push(loss.finally(() => waiting--));
      }
      // At least the last two steps were submitted before their losses were available.
      expect(waiting).toBeGreaterThan(0);
      const values = await Promise.all(losses);
      expect(device.reads - reads).toBe(5);
      for (const value of values) expect(value).toBeGreaterThan(0);
    });

    test('are not begun with an index out of range: the error names the operation, and parameters stay', async () => {
      const before = await table.weight.data();
      await expect(step([1, 10, 2])).rejects.toThrow(IndexError);
      expect(await table.weight.data()).toEqual(before);
      expect(await (await step([1, 9, 2])).item()).toBeGreaterThan(0);
    });

    test('need no verdict about indices that sorting gives', async () => {
      const scores = tensor([3, 1, 2]);
      await scores.realize();
      const reads = device.reads;
      const rows = table.weight.detach().indexSelect(0, scores.argSort());
      await rows.realize();
      expect(device.reads - reads).toBe(0);
      expect(await scores.argSort().data()).toEqual(Int32Array.of(1, 2, 0));
    });

    test('tell how long the device computed, with the next read; or that it has no clock', async () => {
      const events: TimelineEvent[] = [];
      const unsubscribe = subscribe((event) => events.push(event));
      const [before, reads] = [statistics().computeMs, device.reads];
      const loss = await step([3, 2, 9]);
      const ofCompute = () => events.filter(({ category }) => category === 'compute');
      if (device.timing === 'device') expect(ofCompute()).toEqual([]);
      await loss.item();
      unsubscribe();
      expect(device.reads - reads).toBe(1);
      expect(ofCompute()).not.toEqual([]);
      const sum = ofCompute().reduce((total, { durationMs }) => total + durationMs, 0);
      expect(statistics().computeMs - before).toBeCloseTo(sum, 6);
      const details = new Set(ofCompute().map(({ detail }) => detail));
      expect([...details]).toEqual([device.timing === 'device' ? undefined : 'time of encoding']);
      expect(device.description.includes('times of compute are of encoding')).toBe(
        device.timing === 'encoding',
      );
    });

    test('look at indices on the device where an earlier program computed them', async () => {
      const indices = tensor([4.5, 9.5, 10.5]).to('i32');
      await indices.realize();
      await expect(table.weight.indexSelect(0, indices).realize()).rejects.toThrow(
        /index 10 at element 2/,
      );
    });

    test('have their kernels compiled at once and in parallel, each text once', async () => {
      const gpu = await openGpu();
      const compile = gpu.createComputePipelineAsync.bind(gpu);
      let [asked, underWay, most] = [0, 0, 0];
      gpu.createComputePipelineAsync = async (descriptor) => {
        asked++;
        underWay++;
        most = Math.max(most, underWay);
        const pipeline = await compile(descriptor);
        underWay--;
        return pipeline;
      };
      gpu.createComputePipeline = () => {
        throw new Error('a kernel was compiled while the page waits');
      };
      const own = new WebGpuBackend(gpu, {
        adapter: 'counted',
        memoryBytes: 2 ** 30,
        submissionMs: 250,
        timeoutMs: 60_000,
      });
      setRank({ device: own });
      const x = rand([8, 8]);
      const run = () => x.matmul(x).softmax(1).sum().add(x.exp().max()).item();
      const value = await run();
      expect(asked).toBe(own.compiledPipelines);
      expect(most).toBeGreaterThan(1);
      const compiled = asked;
      expect(await run()).toBe(value);
      expect(asked).toBe(compiled);
      own.close();
      setRank({ device });
    });
  },
);
