import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Staging } from '../src/device/staging.ts';
import { findGpu } from '../src/find-gpu.ts';
import { webgpu } from '../src/index.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `memory by which the host reads${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: GPUDevice;

    beforeAll(async () => {
      const adapter = await (await findGpu()).requestAdapter();
      if (adapter === null) throw new Error('the adapter is gone');
      device = await adapter.requestDevice();
    });
    afterAll(() => device.destroy());

    test('is created once for each read that is under way, and taken again by later reads', () => {
      const created = vi.spyOn(device, 'createBuffer');
      const staging = new Staging(device);
      for (let step = 0; step < 5; step++) {
        // Sizes that differ little share memory: a loss and a bucket are of two sizes.
        const taken = [staging.take(4), staging.take(8), staging.take(5000 + step)];
        expect(new Set(taken).size).toBe(3);
        for (const buffer of taken) staging.keep(buffer);
      }
      expect(created).toHaveBeenCalledTimes(3);
      created.mockRestore();
    });

    test('is not kept above 16 MiB, nor for more than four reads of a size', () => {
      const created = vi.spyOn(device, 'createBuffer');
      const staging = new Staging(device);
      for (let i = 0; i < 2; i++) staging.keep(staging.take(2 ** 24 + 4));
      expect(created).toHaveBeenCalledTimes(2);
      const six = () => Array.from({ length: 6 }, () => staging.take(256));
      for (const buffer of six()) staging.keep(buffer);
      expect(created).toHaveBeenCalledTimes(8);
      six();
      expect(created).toHaveBeenCalledTimes(10);
      created.mockRestore();
    });
  },
);
