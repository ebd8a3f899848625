import { reasonWithoutDevice } from '@shardwise/testing/node';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Staging } from '../src/device/staging.ts';
import { openGpu } from './open-gpu.ts';
import { webgpu } from '../src/index.ts';

const reason = await reasonWithoutDevice(webgpu);

describe.skipIf(reason !== undefined)(
  `memory by which the host reads${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    let device: GPUDevice;

    beforeAll(async () => {
      device = await openGpu();
    });
    afterAll(() => device.destroy());

    test('is created once for each read that is under way, and taken again by later reads', () => {
      const created = vi.spyOn(device, 'createBuffer');
      const staging = new Staging(device);
      for (let step = 0; step < 5; step++) {
        // Sizes that differ little share a buffer. A loss and a bucket have different sizes.
        const taken = [staging.take(4), staging.take(8), staging.take(5000 + step)];
        expect(new Set(taken).size).toBe(3);
        for (const buffer of taken) staging.keep(buffer);
      }
      expect(created).toHaveBeenCalledTimes(3);
      created.mockRestore();
    });

    test('is kept for buckets of DDP, of 25 MiB and of sizes near it', () => {
      const created = vi.spyOn(device, 'createBuffer');
      const staging = new Staging(device);
      for (let step = 0; step < 3; step++) {
        const taken = [staging.take(25 << 20), staging.take((25 << 20) + 400 * step)];
        for (const buffer of taken) staging.keep(buffer);
      }
      expect(created).toHaveBeenCalledTimes(2);
      created.mockRestore();
    });

    test('is not kept for more than four reads of a size, nor for more than 256 MiB', () => {
      const created = vi.spyOn(device, 'createBuffer');
      const staging = new Staging(device);
      const take = (count: number, bytes: number) => {
        const taken = Array.from({ length: count }, () => staging.take(bytes));
        for (const buffer of taken) staging.keep(buffer);
      };
      take(6, 256);
      expect(created).toHaveBeenCalledTimes(6);
      take(6, 256);
      expect(created).toHaveBeenCalledTimes(8);
      // Two buffers of 96 MiB are kept.
      take(3, 96 << 20);
      take(3, 96 << 20);
      expect(created).toHaveBeenCalledTimes(12);
      created.mockRestore();
    });
  },
);
